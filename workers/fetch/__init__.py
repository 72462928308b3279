"""Fetching: bytes of polling sources, and where they left off."""
