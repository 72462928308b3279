"""Lists of the files that Kartothek sources have read, as far as this machine has them.

The name of a list is the digest in the source state in the chain, so a list matches its state
exactly, or is missing. A missing list loses nothing: all files are then read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from odf_protocol.kartothek.source import STATE_PREFIX, state_of
from odf_storage.stores.objects import files

FOLDER = "source-files"
LIST_BYTES = 256 << 20
"""Disk for lists of files; with them a Ledger reads new files only."""
Files = frozenset[tuple[str, str]]
"""Pairs of label and key."""
_STATE = re.compile(re.escape(STATE_PREFIX) + r"([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class FileLists:
    """Lists in a folder, of at most `max_bytes` together; the least recently used are removed
    first."""

    folder: Path
    max_bytes: int

    def of(self, state: str | None) -> Files:
        """Return the files of a source state; none if there is no state, or no list for it."""
        found = _STATE.fullmatch(state or "")
        if found is None:
            return frozenset()
        path = self.folder / found[1]
        try:
            raw = path.read_bytes()
            os.utime(path)
        except OSError:
            return frozenset()
        if hashlib.sha3_256(raw).hexdigest() != found[1]:
            return frozenset()
        return frozenset((label, key) for label, key in json.loads(raw)[2])

    def keep(self, listed: str) -> None:
        """Store a `file_list`, if there is room for it."""
        raw = listed.encode()
        if len(raw) > self.max_bytes:
            return
        path = self.folder / state_of(listed).removeprefix(STATE_PREFIX)
        files.write_chunks(path, (raw,), durable=False)
        self._trim()

    def _trim(self) -> None:
        known = []
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):
                status = path.stat()
                known.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in known)
        for _, size, path in sorted(known):
            if total <= self.max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size
