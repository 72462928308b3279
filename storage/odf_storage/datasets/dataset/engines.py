"""Which engine computed which part of a derivative: a note beside its objects (`info/engines`).

Blocks of executions have no field for it. The note has a line for each change of engine or version,
and one for each version that gave the same results as an older one:

    7 spark 4.0.1
    112 spark 4.1.0
    = spark 4.0.1 4.1.0

The first word is the sequence number of the first block that the engine computed. Blocks that were
received on top of our own have the engine `?`, because it is unknown here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import ExecuteTransform, HashedBlock

from ...stores.objects.layout import MAX_INFO_BYTES
from ...stores.ports import ObjectStore
from .dataset import Dataset, DatasetStores

NOTE = "engines"
_SAME = "="
UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class EngineRun:
    """One engine and version, used from block number `since` until the next run."""

    since: int
    engine: str
    version: str


@dataclass(frozen=True, slots=True)
class Compatible:
    """Version `new` of an engine gives the same results as version `old`."""

    engine: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class EngineNote:
    """All that is known of the engines of one derivative."""

    runs: tuple[EngineRun, ...] = ()
    compatible: tuple[Compatible, ...] = ()

    def at(self, number: int) -> EngineRun | None:
        """Return the engine of the block with that number; None if another node computed it."""
        found = [run for run in self.runs if run.since <= number]
        return found[-1] if found and found[-1].engine != UNKNOWN else None

    def with_received(self, number: int) -> EngineNote:
        """Return the note with received blocks from that number on."""
        known = EngineNote(tuple(run for run in self.runs if run.since < number), self.compatible)
        if known.at(number) is None:
            return known
        return EngineNote((*known.runs, EngineRun(number, UNKNOWN, UNKNOWN)), self.compatible)

    def with_run(self, run: EngineRun) -> EngineNote:
        """Return the note with a block that is computed now. Runs of later blocks are dropped,
        because the chain does not have those blocks any more."""
        before = tuple(known for known in self.runs if known.since < run.since)
        last = before[-1] if before else None
        if last is not None and (last.engine, last.version) == (run.engine, run.version):
            return EngineNote(before, self.compatible)
        return EngineNote((*before, run), self.compatible)

    def with_compatible(self, found: Compatible) -> EngineNote:
        if found in self.compatible:
            return self
        return EngineNote(self.runs, (*self.compatible, found))

    def dump(self) -> str:
        """Return the note as text. The oldest lines are dropped if it is too long."""
        lines = [f"{run.since} {run.engine} {run.version}" for run in self.runs]
        lines += [f"{_SAME} {one.engine} {one.old} {one.new}" for one in self.compatible]
        while len("\n".join(lines).encode()) > MAX_INFO_BYTES:
            del lines[0]
        return "\n".join(lines)


def load_note(text: str | None) -> EngineNote:
    """Parse the text of `EngineNote.dump`; lines of another form are skipped."""
    runs, compatible = list[EngineRun](), list[Compatible]()
    for line in (text or "").splitlines():
        words = line.split(" ")
        if len(words) == 4 and words[0] == _SAME:
            compatible.append(Compatible(*words[1:]))
        elif len(words) == 3 and words[0].isdecimal():
            runs.append(EngineRun(int(words[0]), words[1], words[2]))
    return EngineNote(tuple(sorted(runs, key=lambda run: run.since)), tuple(compatible))


def read_note(objects: ObjectStore, dataset: DatasetId) -> EngineNote:
    return load_note(objects.read_info(dataset, NOTE))


def write_note(objects: ObjectStore, dataset: DatasetId, note: EngineNote) -> None:
    objects.write_info(dataset, NOTE, note.dump())


@contextmanager
def noted_as_received(
    stores: DatasetStores, dataset: Dataset, blocks: Sequence[HashedBlock]
) -> Iterator[None]:
    """Note that received blocks with executions were not computed by the engines here.

    The note is written before the blocks are committed, and restored if the commit fails, unless
    the head or the note changed meanwhile. A push that fails may restore the note while this one
    commits, so it is checked again after the commit.
    """
    executed = [block for block in blocks if isinstance(block.event, ExecuteTransform)]
    if not executed:
        yield
        return
    objects, number, head = stores.objects, executed[0].sequence_number, dataset.head()
    with stores.locks.hold(dataset.id):
        known = read_note(objects, dataset.id)
        note = known.with_received(number)
        if note != known:
            write_note(objects, dataset.id, note)
    try:
        yield
    except NodeError:
        with stores.locks.hold(dataset.id):
            if note != known and dataset.head() == head and read_note(objects, dataset.id) == note:
                write_note(objects, dataset.id, known)
        raise
    with stores.locks.hold(dataset.id):
        now = read_note(objects, dataset.id)
        if now.at(blocks[-1].sequence_number) is not None:
            write_note(objects, dataset.id, now.with_received(number))
