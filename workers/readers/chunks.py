"""Chunks of records that are converted at once: limited by their number and by their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ..slices.frame import BATCH_BYTES, BATCH_ROWS

T = TypeVar("T")


def chunks(records: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield successive records together; a chunk ends with the record that reaches a limit."""
    chunk: list[T] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += size_of(record)
        if len(chunk) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
