"""Merge strategies, one file each: they merge a batch with the history of its keys, as Arrow
tables."""
