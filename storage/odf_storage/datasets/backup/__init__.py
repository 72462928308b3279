"""Backups of a whole node: made while it writes, checked, and restored to any kind of store."""
