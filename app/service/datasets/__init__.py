"""Datasets: created, described, shared, renamed, removed."""
