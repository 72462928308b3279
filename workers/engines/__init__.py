"""Engines: queries over files they are given. They see no chain, no job, no store."""
