"""Queries of readers that run as jobs."""
