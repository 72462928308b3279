"""Datasets, references and blocks, indexed."""
