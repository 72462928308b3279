"""Polling sources: fetched, prepared, then ingested as posts are."""
