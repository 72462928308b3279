"""Datasets as shared tables of Delta Sharing. Source: Delta Sharing protocol."""
