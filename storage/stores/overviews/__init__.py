"""Lists of datasets."""
