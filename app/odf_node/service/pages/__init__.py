"""HTML pages for browsers. Their forms call the same use cases as the API."""
