"""Limits on the load of the service, in sum and by caller."""
