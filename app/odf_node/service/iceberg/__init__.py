"""Iceberg: datasets as tables of a read-only catalogue. Source: Iceberg REST catalog."""
