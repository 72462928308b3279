"""Healing: recompute objects whose stored copies are damaged."""
