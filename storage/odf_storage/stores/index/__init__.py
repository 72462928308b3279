"""Adapters for the index of datasets, references and blocks."""
