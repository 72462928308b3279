"""Alembic environment: one intent per version."""
