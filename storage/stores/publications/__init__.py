"""Publications of datasets, kept in SQL."""
