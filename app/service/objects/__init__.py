"""Blocks, slices, checkpoints and references, read and stored."""
