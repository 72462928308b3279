"""Temporary storage of bodies until their hash is known.

The key of an object contains the hash of its content, so a body cannot be stored before its last
byte has arrived.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.hash_beside import HashBeside
from odf_storage.stores.objects.storage_failures import storing

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
    size = 0
    with (
        closing(HashBeside()) as hashed,
        tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES, dir=str(folder)) as file,
    ):
        for chunk in chunks:
            hashed.update(chunk)
            with storing("the data folder"):
                file.write(chunk)
            size += len(chunk)
        yield Spooled(hashed.result(), size, file)
