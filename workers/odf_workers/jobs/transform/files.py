"""Objects as files that an engine can read: links if the store keeps files, copies otherwise.

Copies are kept for the next iterations, by hash, up to a limit; the least recently used are removed
first. A job receives a separate link, so that neither this module nor the store can remove a file
while it is read.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.ports.values import ObjectKind

from ..work.slice_files import local_file, remember_copy

CACHE = "slices"


def work_folder(scratch: Path, prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, which is removed after the block. Folders that an engine in an
    image made as another user may remain."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=scratch, ignore_cleanup_errors=True)


class InputFiles:
    """Files of one job, in its own folder; the jobs of a worker share `cache`."""

    def __init__(self, folder: Path, cache: Path, *, cache_bytes: int) -> None:
        self._folder, self._cache, self._limit = folder, cache, cache_bytes
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, dataset: Dataset, kind: ObjectKind, content: Multihash) -> Path:
        """Return the path of a file with the object. Raises `ObjectNotFound`."""
        place = local_file(dataset, kind, content, self._cache)
        link = self._folder / str(content)
        if link.exists():
            return link
        try:
            link.hardlink_to(place)
        except OSError:  # another file system
            return place
        if place.parent == self._cache:
            remember_copy(dataset, kind, content, link)
            with contextlib.suppress(OSError):
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
