"""Whose definitions of transforms and sources are in force."""
