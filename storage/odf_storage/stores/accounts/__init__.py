"""Adapters for accounts, roles, tokens and failed logins."""
