"""Versions of datasets for table formats: computed once, and cached beside the dataset."""
