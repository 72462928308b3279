"""Which jobs of several locks a worker claims as one group."""

from __future__ import annotations


def may_join(*jobs: tuple[str, bytes | None]) -> bool:
    """Whether jobs of several locks, told by kind and body, are claimed together: of one kind, all
    small."""
    return len({kind for kind, _ in jobs}) == 1 and all(body is not None for _, body in jobs)
