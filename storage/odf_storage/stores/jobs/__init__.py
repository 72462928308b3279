"""Adapter for the job queue."""
