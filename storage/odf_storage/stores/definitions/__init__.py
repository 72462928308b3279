"""Adapter for the authors of transforms and sources."""
