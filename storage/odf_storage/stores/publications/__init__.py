"""Adapter for publications of datasets."""
