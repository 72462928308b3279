"""Webhooks in a SQL database."""
