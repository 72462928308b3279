"""Verify that a dataset is what it claims to be: walk its blocks and files, and report."""
