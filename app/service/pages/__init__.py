"""Pages for people: what the node has, in a browser. They read; the API changes."""
