"""Polls of sources: fetch, prepare, then ingest like posts."""
