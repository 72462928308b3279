"""Lineage: the inputs of a dataset, and the datasets that are derived from it."""
