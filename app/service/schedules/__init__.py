"""Refreshes that begin by themselves."""
