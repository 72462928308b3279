"""Which engine computed which part of a derivative: a note beside its objects (`info/engines`).

Blocks of executions have no place for it. The note has a line for each change of engine or
version, and one for each version that was shown to give the same results as an older one:

    7 spark 4.0.1
    112 spark 4.1.0
    = spark 4.0.1 4.1.0

The first word is the sequence number of the first block that was computed so.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.identity import DatasetId

from .layout import MAX_INFO_BYTES
from .ports import ObjectStore

NOTE = "engines"
_SAME = "="


@dataclass(frozen=True, slots=True)
class EngineRun:
    """From block number `since` on, until the next run."""

    since: int
    engine: str
    version: str


@dataclass(frozen=True, slots=True)
class Compatible:
    """Version `new` of an engine gives what `old` gave."""

    engine: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class EngineNote:
    """Everything known of the engines of one derivative."""

    runs: tuple[EngineRun, ...] = ()
    compatible: tuple[Compatible, ...] = ()

    def at(self, number: int) -> EngineRun | None:
        """The engine of the block of that number, None for one that others computed."""
        found = [run for run in self.runs if run.since <= number]
        return found[-1] if found else None

    def with_run(self, run: EngineRun) -> EngineNote:
        """With a block that is computed now; what the chain had beyond it before is gone."""
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
        """As text; the oldest lines go when it is full."""
        lines = [f"{run.since} {run.engine} {run.version}" for run in self.runs]
        lines += [f"{_SAME} {one.engine} {one.old} {one.new}" for one in self.compatible]
        while len("\n".join(lines).encode()) > MAX_INFO_BYTES:
            del lines[0]
        return "\n".join(lines)


def load_note(text: str | None) -> EngineNote:
    """From `EngineNote.dump`; lines that are none of ours are left out."""
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
