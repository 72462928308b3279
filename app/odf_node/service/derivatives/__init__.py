"""Derivatives: refreshed on request, and updated automatically when their inputs change."""
