"""Checks of a node, by what they check: each is a function with a scenario of its own."""
