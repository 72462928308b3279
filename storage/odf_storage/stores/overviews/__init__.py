"""Adapter for lists of datasets."""
