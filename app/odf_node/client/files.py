"""Format, length and content of local files that are sent to a node."""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from odf_protocol.workbook_types import WORKBOOK_TYPES

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
    **{f".{ending}": kind for ending, kind in WORKBOOK_TYPES.items()},
    ".shp": "application/vnd.shp",
}
"""Media types by file extension, as nodes know them."""


IN_MEMORY_BYTES = 64 << 20
"""Content of a pipe that is longer is kept on disk until it has arrived."""


class Sendable:
    """The content of a stream, which can be read again from its beginning.

    What was read of a pipe is kept in a temporary file, so the limit of the node on a body is also
    that of the file.
    """

    def __init__(self, stream: BinaryIO, kept: BinaryIO) -> None:
        self.size = _size(stream)
        """Bytes from where the stream is to its end; None for a pipe."""
        self._stream, self._kept = stream, kept
        self._start = 0 if self.size is None else stream.tell()

    def chunks(self) -> Iterator[bytes]:
        """Yield the content from its beginning."""
        if self.size is not None:
            self._stream.seek(self._start)
            yield from chunks_of(self._stream)
            return
        self._kept.seek(0)
        yield from chunks_of(self._kept)
        for chunk in chunks_of(self._stream):
            self._kept.write(chunk)
            yield chunk


@contextmanager
def sendable(stream: BinaryIO) -> Iterator[Sendable]:
    """Yield the content of a file or pipe for requests that may be repeated."""
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as kept:
        yield Sendable(stream, cast("BinaryIO", kept))


def _size(stream: BinaryIO) -> int | None:
    try:
        status = os.fstat(stream.fileno())
    except (OSError, io.UnsupportedOperation):
        return None
    return status.st_size - stream.tell() if stat.S_ISREG(status.st_mode) else None
