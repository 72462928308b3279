"""Requests of a service to workers and their results: one module for each kind of job."""
