"""Accounts, passwords and logins."""
