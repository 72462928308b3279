"""Engines elsewhere: in a container, at an address; and ours served to others."""
