"""Shared parts of all kinds of jobs: context, leases, budgets."""
