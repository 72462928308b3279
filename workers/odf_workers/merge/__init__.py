"""Merge strategies, one file each: merge a batch with the history of its keys, as Arrow tables."""
