"""Verification on the node, and what the last one found."""
