"""The files of a zip archive, unpacked in pieces of limited size, whatever the archive contains.

The library gives the decompressor of bzip2 no limit, so that one read of a few kilobytes can return
gigabytes. This module reads such an entry as it is stored, and unpacks it with a limit.
"""

from __future__ import annotations

import bz2
import copy
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2})
"""Supported methods. LZMA is not: there the file determines how much memory unpacking takes."""
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)
"""Errors for archives that cannot be opened, and for entries that cannot be unpacked."""
_ENCRYPTED = 0x1


_LITTER = frozenset({".ds_store", "thumbs.db", "desktop.ini"})
"""Files that operating systems leave in folders."""


def is_litter(name: str) -> bool:
    """Whether an entry is no file of its author: a folder, or what an operating system left."""
    parts = name.replace("\\", "/").split("/")
    file = parts[-1].lower()
    return not file or file in _LITTER or file.startswith("._") or "__MACOSX" in parts


def entries_of(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files of an archive, in their order, without litter."""
    return [entry for entry in archive.filelist if not is_litter(entry.filename)]


def unpacked(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, *, piece_bytes: int
) -> Iterator[bytes]:
    """Yield the content of an entry, at most `piece_bytes` at once.

    Raises:
        DAMAGED: the entry is damaged, encrypted, or packed by a method that is not supported.
    """
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in METHODS:
        raise NotImplementedError("it is encrypted, or packed by a method that is not supported")
    if entry.compress_type == zipfile.ZIP_BZIP2:
        yield from _bunzipped(archive, entry, piece_bytes)
        return
    with archive.open(entry) as content:
        yield from _pieces(content, piece_bytes)


def _bunzipped(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, piece_bytes: int
) -> Iterator[bytes]:
    unpacker, checksum = bz2.BZ2Decompressor(), 0
    with archive.open(_as_stored(entry)) as stored:
        packed = _pieces(stored, piece_bytes)
        while not unpacker.eof:
            data = next(packed, None) if unpacker.needs_input else b""
            if data is None:
                raise EOFError("it is cut short")
            piece = unpacker.decompress(data, piece_bytes)
            checksum = zlib.crc32(piece, checksum)
            yield piece
    if checksum != entry.CRC:
        raise zipfile.BadZipFile("its checksum is wrong")


def _as_stored(entry: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return an entry that lets the library read the packed bytes, which have no checksum."""
    stored = copy.copy(entry)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, entry.compress_size
    del stored.CRC
    return stored


def _pieces(stream: IO[bytes], piece_bytes: int) -> Iterator[bytes]:
    while piece := stream.read(piece_bytes):
        yield piece
