"""Push ingest: receive posted data, and queue it for a worker."""
