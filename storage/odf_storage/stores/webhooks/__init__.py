"""Adapter for webhooks."""
