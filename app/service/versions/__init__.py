"""Versions of datasets for table formats: looked at once, and remembered beside the dataset."""
