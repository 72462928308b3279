"""The messages and values that the service and its query processes share."""
