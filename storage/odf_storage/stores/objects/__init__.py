"""Adapters for object stores: memory, local files, and S3, with the same promises."""
