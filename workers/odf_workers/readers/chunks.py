"""Chunks of records that are converted at once: limited by their number and by their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from odf_protocol.errors import NodeError

from ..slices.frame import BATCH_BYTES, BATCH_ROWS

T = TypeVar("T")


def chunks(
    records: Iterable[T], size_of: Callable[[T], int], *, most: int | None = None
) -> Iterator[list[T]]:
    """Yield successive records together; a chunk ends with the record that reaches a limit: `most`
    records (`BATCH_ROWS` by default), or `BATCH_BYTES`.

    Raise an error of the records only after those before it, which may have errors of their own.
    """
    limit = BATCH_ROWS if most is None else most
    chunk: list[T] = []
    size = 0
    try:
        for record in records:
            chunk.append(record)
            size += size_of(record)
            if len(chunk) >= limit or size >= BATCH_BYTES:
                yield chunk
                chunk, size = [], 0
    except NodeError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
