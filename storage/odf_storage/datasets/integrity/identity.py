"""Identities of objects, which show without a read whether an object changed since its hash."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

Identity = tuple[object, ...]
"""For a file: device, inode, size and time of modification; in a bucket: key and ETag."""


def identity_of(stream: BinaryIO) -> Identity | None:
    """Return the identity of an opened object; None if it has none, such as bytes in memory."""
    if is_remote(stream):
        found: Identity | None = stream.raw.identity  # type: ignore[attr-defined]
        return found
    try:
        return identity_of_file(os.fstat(stream.fileno()))
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return None


def identity_of_file(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def is_remote(stream: Any) -> bool:
    """Return whether every repeated read of a byte uses the network again."""
    return hasattr(getattr(stream, "raw", None), "identity")
