"""Files that appear all at once: write beside the target, sync, rename, sync the folder.

A crash leaves either nothing or the whole file, and at most a `.pending-…` file that
nobody looks at and `remove_abandoned` collects.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from protocol.multihash import SHA3_256, HashMismatch, Multihash

from ..layout import PENDING_PREFIX, parse_name

MAX_TEXT_BYTES = 1024
"""Longest reference or alias file that is read."""
ABANDONED_AFTER_S = 24 * 3600
"""Age at which a `.pending-…` file is taken for the remains of a crash."""


def size_of(path: Path) -> int | None:
    """Size in bytes of a regular file; None if there is none."""
    try:
        return path.stat().st_size if path.is_file() else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_at(path: Path, offset: int) -> BinaryIO:
    """Open for reading at `offset`; past the end reads empty. Raises `FileNotFoundError`."""
    stream = path.open("rb")
    stream.seek(offset)
    return stream


def put_hashed(path: Path, chunks: Iterable[bytes], expected: Multihash, *, durable: bool) -> int:
    """Write chunks that must hash to `expected`; returns the size in bytes.

    A file that exists already is left alone, but the chunks have to hash all the same:
    knowing a hash is not having the content.

    Raises:
        HashMismatch: the chunks are other content; nothing became visible.
    """
    if (known := size_of(path)) is not None:
        _check(expected, Multihash.of_chunks(chunks))
        return known
    state, size = hashlib.sha3_256(), 0
    with _appearing(path, durable=durable) as out:
        for chunk in chunks:
            state.update(chunk)
            size += out.write(chunk)
        _check(expected, Multihash(SHA3_256, state.digest()))
    return size


def write_text(path: Path, text: str, *, durable: bool) -> None:
    """Replace a small text file, all at once, without adding a newline."""
    with _appearing(path, durable=durable) as out:
        out.write(text.encode())


def read_text(path: Path) -> str | None:
    """A small text file without surrounding white space; None if there is none."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_TEXT_BYTES).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def list_hashed(folder: Path) -> Iterator[tuple[Multihash, int]]:
    """Hash and size of the objects in a folder, by name; anything else is skipped."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        object_hash, size = parse_name(name), size_of(folder / name)
        if object_hash is not None and size is not None:
            yield object_hash, size


def remove_abandoned(folder: Path, *, now: float | None = None) -> int:
    """Remove `.pending-…` files older than a day below `folder`; returns how many."""
    limit, removed = (time.time() if now is None else now) - ABANDONED_AFTER_S, 0
    for path in folder.rglob(PENDING_PREFIX + "*"):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
                removed += 1
        except FileNotFoundError:  # its writer was alive after all
            continue
    return removed


@contextmanager
def _appearing(path: Path, *, durable: bool) -> Iterator[BinaryIO]:
    """A stream whose content becomes `path` when the block ends well, and vanishes otherwise."""
    make_folder(path.parent, durable=durable)
    pending = path.parent / f"{PENDING_PREFIX}{secrets.token_hex(8)}"
    try:
        with pending.open("xb") as out:
            yield out
            out.flush()
            if durable:
                os.fsync(out.fileno())
        pending.replace(path)
    except BaseException:
        pending.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def make_folder(folder: Path, *, durable: bool) -> None:
    """Create a folder and its parents; with `durable`, so that they survive a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent, durable=durable)
    folder.mkdir(exist_ok=True)
    if durable:
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check(expected: Multihash, actual: Multihash) -> None:
    if expected != actual:
        raise HashMismatch(expected, actual)
