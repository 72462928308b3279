"""Look up rows of a dataset by values of columns."""
