"""Rows in partitions: one set of stages, in this process or on Spark's executors."""
