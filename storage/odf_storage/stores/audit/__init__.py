"""Adapter for the audit log."""
