"""Accounts and token hashes."""
