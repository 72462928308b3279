"""Derivatives: one iteration from the chains of the inputs to a commit, and its replay."""
