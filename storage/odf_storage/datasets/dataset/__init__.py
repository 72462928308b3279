"""A dataset: its chain, its objects, and the one way to append to it."""
