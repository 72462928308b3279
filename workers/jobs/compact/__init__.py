"""Compaction on a worker: the rows of several slices become one file, by Arrow alone."""
