"""Basics of every program of the node: clock, logs, traces, networks, settings and locks."""
