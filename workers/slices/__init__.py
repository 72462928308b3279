"""Rows to data slices and back."""
