"""Adapter for mirrors, which are datasets that follow a dataset on another node."""
