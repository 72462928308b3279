"""Adapters for keyed stores, which are folders and buckets that other programs use too."""
