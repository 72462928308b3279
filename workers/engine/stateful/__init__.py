"""Queries that remember: windows, joins in time, rankings, kept up to date from changes alone."""
