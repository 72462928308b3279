"""Rows of a dataset that have some values."""
