"""Lists of the Parquet files of a dataset."""
