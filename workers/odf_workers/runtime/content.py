"""The content of a file to read: on the disk, or in memory."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A small file in memory: its bytes are sent with the task that reads them."""

    content: bytes = field(repr=False)


Content = Path | Enclosed


def opened(content: Content) -> BinaryIO:
    """Open the content for reading, from its beginning."""
    return io.BytesIO(content.content) if isinstance(content, Enclosed) else content.open("rb")


def size_of(content: Content) -> int:
    """Return the number of bytes."""
    return len(content.content) if isinstance(content, Enclosed) else content.stat().st_size


def mapped(content: Content) -> pa.NativeFile:
    """Open the content as memory, as Arrow reads it."""
    if isinstance(content, Enclosed):
        return pa.BufferReader(content.content)
    return pa.memory_map(str(content))
