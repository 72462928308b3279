"""Authentication and authorization: identify the caller, decide what it may do."""
