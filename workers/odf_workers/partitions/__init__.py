"""Rows in partitions: the same stages run in this process or on Spark's executors."""
