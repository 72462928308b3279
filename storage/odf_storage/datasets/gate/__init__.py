"""Checks of received slices against their blocks, in processes that a bad file may crash."""
