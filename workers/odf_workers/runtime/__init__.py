"""Basic services for all of a worker: its log, system commands, progress."""
