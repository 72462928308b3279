"""Queries of readers, run as jobs."""
