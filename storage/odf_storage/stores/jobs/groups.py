"""Decides which jobs of several locks a worker claims as one group."""

from __future__ import annotations


def may_join(*jobs: tuple[str, bytes | None]) -> bool:
    """Return whether jobs of several locks, given as kind and body, are claimed together: they
    must have the same kind, and all must have a body."""
    return len({kind for kind, _ in jobs}) == 1 and all(body is not None for _, body in jobs)
