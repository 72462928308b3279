"""What polls took before: the files of a folder, and the files of Kartothek tables.

The files of a folder that polls took: from the blocks of the chain, kept in memory by head.

Lists of the files that Kartothek sources have read, as far as this machine has them.

The name of a list is the digest in the source state in the chain, so a list matches its state
exactly, or is missing. A missing list loses nothing: all files are then read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.kartothek.source import STATE_PREFIX, state_of
from odf_protocol.metadata.events import AddData, HashedBlock
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import ADDRESS_KEY, FORGOTTEN_KEY, Marks, files_of, marks_of
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.objects import files

DATASETS = 32
"""Datasets whose files are kept in memory."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A file that was taken: the hash of its bytes (empty: unknown), the time of its block, the
    mark of the pattern that found it (None: unknown), and the hashes of what was taken under its
    name before."""

    hash: str
    at: Instant
    place: str | None = None
    before: frozenset[str] = frozenset()

    @property
    def hashes(self) -> tuple[str, ...]:
        return (self.hash, *self.before)

    @classmethod
    def after(cls, last: Taken | None, hash_: str, at: Instant, place: str | None) -> Taken:
        known = () if last is None or not last.hash else (last.hash,)
        before = frozenset(known) if last is None else last.before.union(known)
        return cls(hash_, at, place, before)


@dataclass(frozen=True, slots=True)
class FilesTaken:
    """The files by name. Files that are not newer than `forgotten` count as taken: a compaction
    has left out their names."""

    files: dict[str, Taken] = field(default_factory=dict)
    forgotten: Instant | None = None
    state: str | None = None
    """Value of the last source state."""


class FilesMemory:
    """The files taken of some datasets, so that a poll reads only blocks after the last one."""

    def __init__(self) -> None:
        self._known: OrderedDict[DatasetId, tuple[Multihash, FilesTaken]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, dataset: Dataset, head: Multihash) -> FilesTaken:
        """Return the files taken up to `head`."""
        with self._lock:
            last, before = self._known.get(dataset.id, (None, FilesTaken()))
        try:
            blocks = dataset.blocks(after=last, upto=head)
        except NodeError:  # the history is another one than that of the last poll
            blocks, before = dataset.blocks(upto=head), FilesTaken()
        found = _with_blocks(before, blocks)
        with self._lock:
            self._known[dataset.id] = (head, found)
            self._known.move_to_end(dataset.id)
            while len(self._known) > DATASETS:
                self._known.popitem(last=False)
        return found

    def add(self, dataset: DatasetId, marks: Marks, at: Instant) -> None:
        """Note files that were taken, since files without new rows may leave no block."""
        files, place = files_of(marks), marks.get(ADDRESS_KEY)
        with self._lock:
            if dataset in self._known:
                known = self._known[dataset][1].files
                for name, hash_ in files.items():
                    known[name] = Taken.after(known.get(name), hash_, at, place)


def _with_blocks(before: FilesTaken, blocks: Iterable[HashedBlock]) -> FilesTaken:
    """Add the files of the blocks, oldest first."""
    files, forgotten, state = dict(before.files), before.forgotten, before.state
    for block in blocks:
        event, at = block.event, block.block.system_time
        if not isinstance(event, AddData):
            continue
        marks = marks_of(event)
        named = files_of(marks)
        value = None if event.new_source_state is None else event.new_source_state.value
        if not named and value is not None and value != state:  # of a version without marks
            named, forgotten = {value: ""}, at
        state = value
        for name, hash_ in named.items():
            if hash_ or name not in files:  # a block may repeat the state of the one before
                place = marks.get(ADDRESS_KEY)
                files[name] = Taken.after(files.get(name), hash_, at, place)
        if FORGOTTEN_KEY in marks:
            forgotten = at
    return FilesTaken(files, forgotten, state)


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
