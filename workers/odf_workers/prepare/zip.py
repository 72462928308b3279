"""Unpack one entry of a zip archive: by exact name, else by glob pattern, else the first."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import BinaryIO, cast

from odf_storage.runtime.zip_entries import DAMAGED, entries_of, unpacked

from ..runtime.content import Content, opened
from ..runtime.input_limits import (
    CHUNK_BYTES,
    DecompressionTooLarge,
    EntryNotFound,
    MalformedArchive,
    PrepareLimits,
    within,
)

DIRECTORY_BYTES = 4 << 20
"""Limit of the table of contents in bytes, since the library keeps it in memory."""


class _Bounded:
    """A file that limits each read to the size of a table of contents."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell
        self.seekable, self.close = stream.seekable, stream.close

    def read(self, size: int = -1) -> bytes:
        wanted = DIRECTORY_BYTES + 1 if size < 0 else min(size, DIRECTORY_BYTES + 1)
        data = self._stream.read(wanted)
        if len(data) > DIRECTORY_BYTES:
            raise DecompressionTooLarge(
                f"the table of contents of the archive is longer than {DIRECTORY_BYTES} bytes",
                limit="directory_bytes",
                value=DIRECTORY_BYTES,
            )
        return data


def unzip(content: Content, sub_path: str | None, limits: PrepareLimits) -> Iterator[bytes]:
    """Yield the bytes of one entry.

    Raises:
        MalformedArchive: the file is not zip, damaged, encrypted, or packed in an unsupported way.
        EntryNotFound: no entry has that name.
        DecompressionTooLarge: the content, or the number of entries, exceeds the limits.
    """
    with opened(content) as stream:
        archive = _opened(stream, limits)
        entry = _entry(archive, sub_path)
        yield from within(_content(archive, entry), limits, read=[entry.compress_size])


def entry_names(content: Content, limits: PrepareLimits) -> list[str]:
    """Return the names of the files in an archive. Raises `MalformedArchive`,
    `DecompressionTooLarge`."""
    with opened(content) as stream:
        archive = _opened(stream, limits)
        return [entry.filename for entry in entries_of(archive)]


def _opened(stream: BinaryIO, limits: PrepareLimits) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(cast("BinaryIO", _Bounded(stream)))
    except DAMAGED as bad:
        raise MalformedArchive(f"the input is no intact zip file ({bad})") from None
    if len(archive.filelist) > limits.max_entries:
        raise DecompressionTooLarge(
            f"the archive has {len(archive.filelist)} entries, at most {limits.max_entries} "
            "are taken",
            limit="max_entries",
            value=limits.max_entries,
        )
    return archive


def _entry(archive: zipfile.ZipFile, sub_path: str | None) -> zipfile.ZipInfo:
    files = entries_of(archive)
    if sub_path is not None:
        exact = [entry for entry in files if entry.filename == sub_path]
        files = exact or [entry for entry in files if fnmatchcase(entry.filename, sub_path)]
    if not files:
        what = "is empty" if sub_path is None else f"has no entry {sub_path!r}"
        raise EntryNotFound(f"the archive {what}", sub_path=sub_path)
    return files[0]


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        yield from unpacked(archive, entry, piece_bytes=CHUNK_BYTES)
    except DAMAGED as bad:
        raise MalformedArchive(
            f"the entry {entry.filename!r} cannot be unpacked: {bad}", entry=entry.filename
        ) from None
