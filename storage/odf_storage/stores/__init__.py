"""Durable state: the ports, and for each port its adapters."""
