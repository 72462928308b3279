"""Bells: how processes of a node wake each other, so that nobody has to ask all the time."""
