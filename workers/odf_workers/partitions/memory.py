"""A limit on the memory that a task takes to read untrusted files."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

_STATUS = Path("/proc/self/status")


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Allow this process the given number of bytes more than it has now; further allocations raise
    `MemoryError`. No limit if `size` is 0, or if the system does not report the current use."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    pa.allocate_buffer(1)  # Arrow's allocator first reserves a gigabyte of addresses, which count
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
    """Return the bytes that count against the limit: private writable memory."""
    with suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None
