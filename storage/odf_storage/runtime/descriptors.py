"""How many files and connections a process may have open: raised as far as the system allows.

Usual systems start programs with 1,024, which a service uses up by that number of clients, and
allow many times more on request. Programs that are started inherit the raised limit.
"""

from __future__ import annotations

import contextlib
import resource

WANTED = 65_536
"""Descriptors that a program asks for; more make some libraries slow that close all of them."""
JAVA_NEEDS = 512
"""Descriptors below which Spark's Java does not start: it opens its classes one by one."""


def raise_limit(needed: int) -> str | None:
    """Raise the limit of this process. Return a warning if it stays below `needed`, else None."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    return (
        f"this process may open {soft} files and connections, its settings can take {needed}: "
        f"raise the limit (ulimit -n {needed}, or LimitNOFILE= of its service)"
    )
