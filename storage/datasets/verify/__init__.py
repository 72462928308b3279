"""Is a dataset what it claims to be: the walk over its blocks and files, and what it reports."""
