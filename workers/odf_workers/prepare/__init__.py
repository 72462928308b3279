"""Preparation: pass fetched bytes through decompression and commands before they are read."""
