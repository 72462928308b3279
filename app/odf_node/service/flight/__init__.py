"""Queries over Arrow Flight SQL: a gRPC server on a separate port, on top of the node's queries."""
