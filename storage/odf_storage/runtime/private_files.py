"""Keeps files of a node private to the account that runs it.

New files are created private; files that an earlier version left open are closed at the start. The
data folder keeps others out of everything below it, so only its direct entries are checked.

The files of a zip archive, unpacked in pieces of limited size, whatever the archive contains.

The library gives the decompressor of bzip2 no limit, so that one read of a few kilobytes can return
gigabytes. This module reads such an entry as it is stored, and unpacks it with a limit.
"""

from __future__ import annotations

import bz2
import copy
import logging
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077
_log = logging.getLogger("odf.node")


def keep_private(data: Path) -> None:
    """Create private files from now on, and make entries of the data folder private. If an entry
    belongs to another account, leave it as it is and log a warning."""
    os.umask(OTHERS)
    if not data.is_dir():
        return
    _close(data)
    for path in data.iterdir():
        if not path.is_symlink():
            _close(path)


def make_private(folder: Path) -> None:
    """Create the folder if it is absent; a new folder is private."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def touch_private(path: Path) -> None:
    """Create an empty private file if absent, before a library creates one that others can read."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def _close(path: Path) -> None:
    """Remove the access rights of other accounts."""
    try:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)
    except FileNotFoundError:  # removed meanwhile
        return
    except OSError as refused:
        _log.warning("other accounts of this machine may read %s: %s", path, refused.strerror)


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
    """Return the files of an archive, in their order, without litter. Of entries with one name the
    last one counts, as for other programs: it was added to replace the others."""
    last = {entry.filename: entry for entry in archive.filelist}
    return [entry for name, entry in last.items() if not is_litter(name)]


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
