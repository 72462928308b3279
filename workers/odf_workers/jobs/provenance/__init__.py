"""Provenance: why a row of a dataset is there, answered from its chain and by its engine."""
