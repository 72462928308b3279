"""Private folders of a query: one for spilled data, one for links to its slices.

The links are in a memory file system if there is one: a disk may take a second to make a thousand
links, and another second to remove them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ..settings import Settings

ABANDONED_S = 86_400.0
"""Age in seconds from which a folder of a query counts as left behind."""
MEMORY = Path("/dev/shm")  # noqa: S108 - each folder in it has a random name
PREFIX = "odf-query-"


class OwnFolders:
    """Makes folders for queries, each with a random name and accessible to this user only."""

    def __init__(self, settings: Settings) -> None:
        self.scratch = (settings.data / "queries").absolute()
        self.links = (settings.query_links or _links_by_default(settings)).absolute()

    def make_scratch(self) -> Path:
        return _made(self.scratch)

    def make_links(self) -> Path:
        return _made(self.links)

    def remove_abandoned(self) -> None:
        """Remove folders that an earlier run of this user left behind."""
        for folder in (self.scratch, self.links):
            for path in _abandoned(folder):
                shutil.rmtree(path, ignore_errors=True)


def _links_by_default(settings: Settings) -> Path:
    has_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    return MEMORY if has_memory else settings.data / "query-links"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))


def _abandoned(folder: Path) -> Iterator[Path]:
    for path in folder.glob(f"{PREFIX}*"):
        found = path.lstat()
        if found.st_uid == os.getuid() and found.st_mtime < time.time() - ABANDONED_S:
            yield path
