"""Slices that were received are held to their blocks, in processes that may die of them."""
