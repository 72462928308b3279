"""Private folders of a query: one for spilled data, one for links to its slices.

The links are in a memory file system if there is one: a disk may take a second to make a thousand
links, and another second to remove them. The folders lie in two that the run of the service locks;
a later run removes those of runs that were killed.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from odf_storage.runtime.own_folders import own_folder, remove_dead

from ..settings import Settings

MEMORY = Path("/dev/shm")  # noqa: S108 - each folder in it has a random name
RUN, QUERY = "odf-queries-", "query-"


class OwnFolders:
    """Makes folders for queries, each with a random name and accessible to this user only."""

    def __init__(self, settings: Settings) -> None:
        self.scratch = (settings.data / "queries").absolute()
        self.links = (settings.query_links or _links_by_default(settings)).absolute()
        self._runs: dict[Path, Path] = {}
        self._held = ExitStack()
        self._lock = threading.Lock()

    def make_scratch(self) -> Path:
        return self._made(self.scratch)

    def make_links(self) -> Path:
        return self._made(self.links)

    def remove_dead(self) -> None:
        """Remove folders of runs that were killed."""
        for folder in (self.scratch, self.links):
            remove_dead(folder, RUN)

    def close(self) -> None:
        """Remove the folders of this run."""
        with self._lock:
            self._runs.clear()
            self._held.close()

    def _made(self, base: Path) -> Path:
        with self._lock:
            if base not in self._runs:
                if not self._runs:
                    atexit.register(self.close)
                self._runs[base] = self._held.enter_context(own_folder(base, RUN))
            return Path(tempfile.mkdtemp(prefix=QUERY, dir=self._runs[base]))


def _links_by_default(settings: Settings) -> Path:
    has_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    return MEMORY if has_memory else settings.data / "query-links"
