"""How large partitions are on a Spark: by the memory that goes with each of its tasks.

Stages run in Python processes beside Spark's heap, one for each task that runs. An administrator
who gives executors a heap gives the machine about as much beside it; a partition is an eighth of a
task's share of that, because a merge holds its rows, their keys, the history they meet and what
comes of them.
"""

from __future__ import annotations

import re
from typing import Any

PARTS = 8
SMALLEST_BYTES = 4 << 20
"""Of a partition: smaller ones cost more than they bring."""
DEFAULT_HEAP = "1g"
"""Spark's own."""
_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)([bkmgt]?)b?")


def partition_bytes(heap: str, tasks: int) -> int:
    """For a process of Spark with such a heap, as Spark writes it, and so many tasks at a time."""
    return max(heap_bytes(heap) // max(1, tasks) // PARTS, SMALLEST_BYTES)


def heap_bytes(text: str) -> int:
    """Bytes of a size as Spark writes it; without a unit it is in MiB. Raises `ValueError`."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"not a size of memory: {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def of_spark(spark: Any) -> int:
    """Bytes of a partition on the Spark of this context, by what it has now."""
    is_local = str(spark.master).startswith("local")
    name = "spark.driver.memory" if is_local else "spark.executor.memory"
    processes = int(spark._jsc.sc().getExecutorMemoryStatus().size())
    executors = 1 if is_local else max(1, processes - 1)  # the driver is listed as well
    tasks = -(-int(spark.defaultParallelism) // executors)
    return partition_bytes(str(spark.getConf().get(name, DEFAULT_HEAP)), tasks)
