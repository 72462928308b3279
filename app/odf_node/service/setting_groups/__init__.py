"""Settings of the service by topic; `settings.py` combines them into one class and reads it."""
