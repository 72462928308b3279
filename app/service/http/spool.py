"""Temporary storage of bodies until their hash is known.

The key of an object contains the hash of its content, so a body cannot be stored before its last
byte has arrived.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from odf_node.protocol.multihash import SHA3_256, Multihash
from odf_node.storage.stores.objects.storage_failures import storing

MEMORY_BYTES = 4 * 1024 * 1024
READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Spooled:
    """A body that arrived completely. `size` is in bytes."""

    hash: Multihash
    size: int
    file: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """Return the body from its beginning, in pieces."""
        self.file.seek(0)
        return iter(lambda: self.file.read(READ_BYTES), b"")


@contextmanager
def spooled(data: Path, chunks: Iterable[bytes]) -> Iterator[Spooled]:
    """Keep a body for the duration of the `with` block: a small one in memory, a larger one in a
    temporary file in the node's data folder."""
    folder = data / "uploads"
    with storing("the data folder"):
        folder.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha3_256(), 0
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES, dir=str(folder)) as file:
        for chunk in chunks:
            digest.update(chunk)
            with storing("the data folder"):
                file.write(chunk)
            size += len(chunk)
        yield Spooled(Multihash(SHA3_256, digest.digest()), size, file)
