"""Verification that executes: recorded transformations are made again and compared."""
