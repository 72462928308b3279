"""Accounts that get rights, other names, or leave, with their datasets."""
