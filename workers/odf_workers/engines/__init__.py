"""Engines: run queries over the files of a request. They see no chain, no job, no store."""
