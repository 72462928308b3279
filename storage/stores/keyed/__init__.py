"""Keyed stores: folders and buckets that other programs use too."""
