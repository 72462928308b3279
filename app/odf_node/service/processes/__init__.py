"""The server process of the service, and the supervisor of its worker processes."""
