"""Adapters for schedules, and for variables and secrets of sources."""
