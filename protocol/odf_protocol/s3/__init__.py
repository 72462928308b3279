"""Parsing of requests to object stores, as their clients write them. No input or output."""
