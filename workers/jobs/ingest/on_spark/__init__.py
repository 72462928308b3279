"""Merges of batches that do not fit into memory, by Spark DataFrames."""
