"""Pages for people, in a browser. What their forms change goes by the use cases of the API."""
