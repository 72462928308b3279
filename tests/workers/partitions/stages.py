"""Stages for the tests of partitions. Executors import them by their name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from odf_workers.slices.schema import BadRow

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def counted(given: tuple[int, int]) -> Iterator[Any]:
    """Numbers from the first up to the second, in small batches, and how many there are."""
    first, end = given
    for start in range(first, end, 100):
        numbers = list(range(start, min(start + 100, end)))
        yield pa.record_batch([numbers, [f"row {n}" for n in numbers]], schema=SCHEMA)
    yield {"rows": end - first}


def failing(given: tuple[int, int]) -> Iterator[Any]:
    yield from counted(given)
    if given[0]:
        raise BadRow("it is not a number", line=given[0], column="n")


def by_remainder(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for group in range(3):
            mask = [n % 3 == group for n in batch.column(0).to_pylist()]
            yield group, batch.filter(pa.array(mask))


def listed(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    seen: list[int] = []
    for batch in batches:
        seen += batch.column(0).to_pylist()
        yield batch
    yield (number, seen)
