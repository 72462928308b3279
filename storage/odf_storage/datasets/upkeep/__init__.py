"""Maintain the stores: rebuild the index, check the objects, collect garbage."""
