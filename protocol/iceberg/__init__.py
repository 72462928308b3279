"""Iceberg tables as their readers know them: schemas, manifests, table metadata. Pure."""
