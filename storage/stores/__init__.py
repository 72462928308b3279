"""Durable state: ports, and an adapter behind each."""
