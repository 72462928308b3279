"""A limit on the memory that a task takes to read untrusted files.

The size of partitions on Spark, from the memory available to each task.

Stages run in Python processes beside Spark's heap, one for each running task. We assume that an
executor's machine has about as much memory beside the heap as the heap itself. A partition is an
eighth of a task's share of that, because a merge keeps in memory its rows, their keys, the history
of these, and the result.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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


PARTS = 8
SMALLEST_PARTITION_BYTES = 4 << 20
"""Lower limit of a partition's size: the overhead of smaller ones exceeds their benefit."""
DEFAULT_HEAP = "1g"
"""Spark's default heap."""
_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)([bkmgt]?)b?")


def partition_bytes(heap: str, tasks: int) -> int:
    """Return the bytes of a partition, for a Spark process with a heap in Spark's notation and this
    number of parallel tasks."""
    return max(heap_bytes(heap) // max(1, tasks) // PARTS, SMALLEST_PARTITION_BYTES)


def heap_bytes(text: str) -> int:
    """Return the bytes of a size in Spark's notation; without a unit it is in MiB. Raises
    `ValueError`."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"not a size of memory: {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def of_spark(spark: Any) -> int:
    """Return the bytes of a partition on the Spark of this context, by its present configuration
    and executors."""
    is_local = str(spark.master).startswith("local")
    name = "spark.driver.memory" if is_local else "spark.executor.memory"
    processes = int(spark._jsc.sc().getExecutorMemoryStatus().size())
    executors = 1 if is_local else max(1, processes - 1)  # the driver is listed as well
    tasks = -(-int(spark.defaultParallelism) // executors)
    return partition_bytes(str(spark.getConf().get(name, DEFAULT_HEAP)), tasks)
