"""Queries over Arrow Flight SQL: gRPC on a port of its own, in front of the queries of the node."""
