"""The files of a folder that polls took: from the blocks of the chain, kept in memory by head."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import AddData
from odf_protocol.multihash import Multihash
from odf_protocol.source_marks import FORGOTTEN_KEY, files_of, marks_of
from odf_storage.datasets.dataset.dataset import Dataset

DATASETS = 32
"""Datasets whose files are kept in memory."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A file that was taken: the hash of its bytes (empty: unknown), and the time of its block."""

    hash: str
    at: Instant


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

    def add(self, dataset: DatasetId, files: Mapping[str, str], at: Instant) -> None:
        """Note files that were taken, since files without new rows may leave no block."""
        with self._lock:
            if dataset in self._known:
                known = self._known[dataset][1].files
                known.update({name: Taken(hash_, at) for name, hash_ in files.items()})


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
                files[name] = Taken(hash_, at)
        if FORGOTTEN_KEY in marks:
            forgotten = at
    return FilesTaken(files, forgotten, state)
