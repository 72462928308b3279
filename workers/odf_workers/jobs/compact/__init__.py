"""Compaction on a worker: merge the rows of several slices into one file, using only Arrow."""
