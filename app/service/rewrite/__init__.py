"""Compaction, reset and watermarks."""
