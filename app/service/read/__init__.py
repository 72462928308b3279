"""Rows of a dataset, in the formats clients want."""
