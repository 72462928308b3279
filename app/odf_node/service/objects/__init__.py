"""Serve and store the content-addressed objects of datasets, and serve their references."""
