"""Settings of the service by topic; `settings.py` makes one class of them and reads it."""
