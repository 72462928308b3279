"""The ways in: the list of datasets, the manual, the reference of the API."""
