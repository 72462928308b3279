"""Schemas, manifests and table metadata in the formats of Iceberg. No input or output."""
