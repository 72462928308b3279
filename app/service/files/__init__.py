"""The Parquet files of a dataset as a list."""
