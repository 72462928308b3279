"""Format and length of local files that are sent to a node."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from .folder import chunks_of

FILE_TYPES: dict[str, str] = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".geojson": "application/geo+json",
    ".ndgeojson": "application/x-ndgeojson",
    ".parquet": "application/vnd.apache.parquet",
    ".arrows": "application/vnd.apache.arrow.stream",
    ".shp": "application/vnd.shp",
}
"""Media types by file extension, as nodes know them."""


def sized_chunks(stream: BinaryIO) -> tuple[int | None, Iterator[bytes]]:
    """Return the length of a regular file (None for a pipe), and its content in pieces."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, io.UnsupportedOperation):
        return None, chunks_of(stream)
    return (status.st_size if stat.S_ISREG(status.st_mode) else None), chunks_of(stream)
