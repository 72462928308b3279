"""Merge strategies, one file each, DataFrame → DataFrame."""
