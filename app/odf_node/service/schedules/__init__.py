"""Scheduled refreshes of datasets, and the service's periodic maintenance."""
