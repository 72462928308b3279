"""Fetch bytes from polling sources, with the new source states."""
