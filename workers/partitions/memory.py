"""A bound on the memory that a task takes to read what strangers wrote."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

_STATUS = Path("/proc/self/status")


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """So many bytes more than it has now is all that this process is given: a `MemoryError` for
    the rest. 0, or a system that does not tell what a process has: no bound."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    pa.allocate_buffer(1)  # Arrow's allocator takes a gigabyte of addresses at first, which count
    taken = _taken()
    if not size or taken is None:
        yield
        return
    most = taken + size
    if before[1] != resource.RLIM_INFINITY:
        most = min(most, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _taken() -> int | None:
    """Bytes that count against the limit: what is mapped to be written by this process alone."""
    with suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None
