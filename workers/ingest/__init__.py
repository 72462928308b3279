"""Bytes to rows: readers, coercion, event time."""
