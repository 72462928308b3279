"""Verification by execution: repeat recorded transformations and compare the results."""
