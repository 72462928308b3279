"""Datasets that follow one on another node."""
