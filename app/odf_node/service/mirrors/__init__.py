"""Mirrors: datasets that follow a dataset on another node."""
