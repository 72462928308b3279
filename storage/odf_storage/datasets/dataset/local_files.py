"""Objects as hashed local files: in place if the store keeps files, else as copies."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from odf_protocol.multihash import Multihash

from ...stores.ports.values import ObjectKind
from .dataset import Dataset

COPY_BYTES = 1 << 20
SPOOL_BYTES = 16 << 20
"""Copies up to this size in bytes stay in memory."""


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """Return the object as a file: in place if the store keeps files, else a copy in `folder`. Its
    bytes were hashed, also those of a copy that existed already.

    Raises:
        ObjectNotFound: the dataset has no such upload.
        ObjectDamaged, ObjectHealing: a slice or checkpoint is damaged or missing.
    """
    return dataset.whole_file(kind, content, folder / str(content))


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    with path.open("rb") as stream:
        while chunk := stream.read(COPY_BYTES):
            yield chunk


@contextmanager
def read_anywhere(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield the stream, or a copy of it, as a file with random access."""
    if stream.seekable():
        yield stream
        return
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as copy:
        shutil.copyfileobj(stream, copy, COPY_BYTES)
        copy.seek(0)
        yield copy  # type: ignore[misc]
