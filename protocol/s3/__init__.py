"""Requests to object stores as their clients write them. Pure."""
