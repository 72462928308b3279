"""Reads of datasets: rows, and the last records, in the format that a client requests."""
