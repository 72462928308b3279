"""Objects as files an engine can read: linked where the store keeps files, else copied once.

Copies are kept for the next iterations, by hash, up to a limit; the least recently used go
first. A job gets a link of its own, so that neither this nor the store can take a file away
while it is read.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.stores.ports.values import ObjectKind

from ..work.slice_files import local_file

CACHE = "slices"


def work_folder(scratch: Path, prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Gone after the block, but for folders that an engine in an image made as another user."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=scratch, ignore_cleanup_errors=True)


class InputFiles:
    """Files of one job, in a folder of its own; `cache` is shared by the jobs of a worker."""

    def __init__(self, folder: Path, cache: Path, *, cache_bytes: int) -> None:
        self._folder, self._cache, self._limit = folder, cache, cache_bytes
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, dataset: Dataset, kind: ObjectKind, content: Multihash) -> Path:
        """The object as a file. Raises `ObjectNotFound`."""
        place = local_file(dataset, kind, content, self._cache)
        link = self._folder / str(content)
        if link.exists():
            return link
        try:
            link.hardlink_to(place)
        except OSError:  # another file system
            return place
        with contextlib.suppress(OSError):
            if place.parent == self._cache:
                os.utime(place)
        return link

    def trim(self) -> None:
        """Remove the least recently used copies beyond the limit."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._cache):
                stat = entry.stat()
                found.append((stat.st_mtime_ns, stat.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                return
            Path(path).unlink(missing_ok=True)
            total -= size
