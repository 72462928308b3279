"""Merge strategies, one file each: rows of a batch and the history they meet, as Arrow tables."""
