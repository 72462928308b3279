"""The service and its workers as processes."""
