"""Adapter for the log of damaged and missing objects."""
