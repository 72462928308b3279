"""Schemas and deletion vectors in the formats of Delta Lake. No input or output."""
