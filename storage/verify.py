"""Is a dataset what it claims to be? Every byte, every rule, every row; nothing executed.

Three passes: back from the head, hashing every block; forward again, holding the chain to
its rules; then the data blocks, newest first: size, physical hash, logical hash, number of
rows and offset column of each slice, size and hash of each checkpoint. What is wrong
becomes a line of the report. Memory does not grow with the size of objects.

A derivative's slice may be encoded anew as long as its size and its rows stay the same.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, Protocol

from protocol.arrow_digest import Run, in_order
from protocol.chain.errors import ChainRuleBroken
from protocol.chain.rules import report as broken_rules
from protocol.codec.blocks import decode_block
from protocol.errors import BadInput, NotFound
from protocol.metadata.block import HashedBlock
from protocol.metadata.events import AddData, DatasetKind, ExecuteTransform, Seed, SetVocab
from protocol.multihash import SHA3_256, Multihash

from .dataset import Dataset
from .errors import RefNotFound
from .layout import HEAD, object_path
from .named import NamedObject, named_objects
from .objects.folder import FolderObjects
from .slices import Finding, check_slice
from .values import ObjectKind

CHUNK_BYTES = 1 << 20
MAX_BLOCK_BYTES = 64 << 20
"""Largest block that is read."""
MAX_PROBLEMS = 10_000
"""Problems a report lists at most."""
DEFAULT_OFFSET_COLUMN = "offset"

Progress = Callable[[str, int, int], None]
"""Called with phase (`blocks`, `rules`, `objects`), steps done and steps in all (0: unknown)."""


class ChainSource(Protocol):
    """A dataset to look at, wherever it is. Absent things raise a `NotFound`."""

    def head(self) -> Multihash: ...
    def block_bytes(self, block: Multihash, /) -> bytes: ...
    def open_object(self, kind: ObjectKind, object_hash: Multihash, /) -> BinaryIO: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, or (among the notes) that could not be decided."""

    reason: str
    """Name of the error, like `PhysicalHashMismatch`."""
    message: str
    block: str | None = None
    sequence_number: int | None = None
    path: str | None = None
    """Of the object, below the dataset's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was looked at and what is wrong with it. Sizes in bytes."""

    head: str
    blocks: int
    objects: int
    size: int
    records: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    """Differences that do not prove damage."""

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_data(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {"ok": self.ok, **asdict(self)}


@dataclass(frozen=True, slots=True)
class _DataBlock:
    """What the last pass needs to know of a data block."""

    block: Multihash
    sequence_number: int
    event: AddData | ExecuteTransform
    offset_column: str | None


@dataclass
class _Findings:
    """What is known so far."""

    source: ChainSource
    progress: Progress | None
    run: Run = in_order
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    data: list[_DataBlock] = field(default_factory=list)
    kind: DatasetKind | None = None
    blocks: int = 0
    objects: int = 0
    size: int = 0
    records: int = 0

    def add(self, problem: Problem) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def step(self, phase: str, done: int, total: int = 0) -> None:
        if self.progress is not None:
            self.progress(phase, done, total)


def verify_chain(
    source: ChainSource,
    *,
    objects: bool = True,
    logical: bool = True,
    progress: Progress | None = None,
    run: Run = in_order,
) -> VerifyReport:
    """Look at everything. `objects=False`: the chain only; `logical=False`: no rows.

    `run` may hash the columns of rows in threads: `storage.hashing.threaded`.

    A bad dataset is a result. Raises only what `source.head()` raises when there is no
    dataset, and what goes wrong on the way to the source.
    """
    findings = _Findings(source, progress, run)
    head = source.head()
    path, sound = _walk_back(findings, head)
    blocks = _forward(findings, path, sound=sound)
    if sound:
        for broken in broken_rules(blocks, limit=MAX_PROBLEMS):
            findings.add(_broken_rule(broken))
    for _ in blocks:  # whatever the rules did not ask for
        pass
    if objects:
        _check_data(findings, logical=logical)
    return VerifyReport(
        head=str(head),
        blocks=findings.blocks,
        objects=findings.objects,
        size=findings.size,
        records=findings.records,
        problems=tuple(findings.problems),
        notes=tuple(findings.notes),
    )


class DatasetSource:
    """A dataset of this node: head of the index, blocks and objects of the object store."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def head(self) -> Multihash:
        return self._dataset.head()

    def block_bytes(self, block: Multihash) -> bytes:
        with self.open_object(ObjectKind.BLOCK, block) as stream:
            return stream.read(MAX_BLOCK_BYTES)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._dataset.open_object(kind, object_hash)


class FolderSource:
    """A dataset in a folder."""

    def __init__(self, folder: FolderObjects) -> None:
        self._folder = folder

    def head(self) -> Multihash:
        """Raises `RefNotFound` when the folder holds no dataset."""
        head = self._folder.read_ref(HEAD)
        if head is None:
            raise RefNotFound(HEAD)
        return head

    def block_bytes(self, block: Multihash) -> bytes:
        with self._folder.open(ObjectKind.BLOCK, block) as stream:
            return stream.read(MAX_BLOCK_BYTES)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._folder.open(kind, object_hash)


# --- the chain ------------------------------------------------------------------------------


def _walk_back(findings: _Findings, head: Multihash) -> tuple[list[Multihash], bool]:
    """Hashes from head to the first block, newest first; and whether all bytes are right."""
    path: dict[Multihash, None] = {}
    following: Multihash | None = head
    number: int | None = None
    sound = True
    while following is not None and following not in path:
        block, problem = _read_block(findings.source, following, number)
        if problem is not None:
            sound = False
            findings.add(problem)
        if block is None:
            break
        path[following] = None
        findings.step("blocks", len(path))
        following, number = block.prev, block.sequence_number - 1
    findings.blocks = len(path)
    return list(path), sound


def _read_block(
    source: ChainSource, block_hash: Multihash, number: int | None
) -> tuple[HashedBlock | None, Problem | None]:
    """The block as far as it can be read, and what is wrong with it."""
    try:
        raw = source.block_bytes(block_hash)
    except NotFound:
        reason, message = "BlockNotFound", "the block is not there"
        return None, _block_problem(block_hash, number, reason, message)
    actual, problem = Multihash.of(raw), None
    if actual != block_hash:
        message = f"the block's bytes hash to {actual}"
        problem = _block_problem(block_hash, number, "HashMismatch", message)
    try:
        return decode_block(raw), problem
    except BadInput as error:
        unreadable = _block_problem(block_hash, number, type(error).__name__, error.message)
        return None, problem or unreadable


def _forward(
    findings: _Findings, newest_first: list[Multihash], *, sound: bool
) -> Iterator[HashedBlock]:
    """The blocks again, oldest first, noting what later checks need."""
    offset_column = DEFAULT_OFFSET_COLUMN
    for done, block_hash in enumerate(reversed(newest_first), 1):
        block, _ = _read_block(findings.source, block_hash, None)
        if block is None:  # changed since the walk back
            return
        event = block.event
        if isinstance(event, Seed):
            findings.kind = event.dataset_kind
        elif isinstance(event, SetVocab):
            offset_column = event.offset_column or DEFAULT_OFFSET_COLUMN
        elif isinstance(event, AddData | ExecuteTransform):
            known = offset_column if sound else None
            entry = _DataBlock(block_hash, block.sequence_number, event, known)
            findings.data.append(entry)
        findings.step("rules", done, len(newest_first))
        yield block


def _broken_rule(broken: ChainRuleBroken) -> Problem:
    return _block_problem(
        broken.block, broken.sequence_number, type(broken).__name__, broken.reason
    )


def _block_problem(block: Multihash, number: int | None, reason: str, message: str) -> Problem:
    return Problem(
        reason=reason,
        message=message,
        block=str(block),
        sequence_number=number,
        path=str(object_path(ObjectKind.BLOCK, block)),
    )


# --- objects --------------------------------------------------------------------------------


def _check_data(findings: _Findings, *, logical: bool) -> None:
    total = sum(1 for entry in findings.data for _ in named_objects(entry.event))
    for entry in reversed(findings.data):
        for named in named_objects(entry.event):
            findings.objects += 1
            for found in _check_object(findings, entry, named, logical=logical):
                problem = _object_problem(entry, named, found)
                findings.add(problem) if found.certain else findings.notes.append(problem)
            findings.step("objects", findings.objects, total)


def _check_object(
    findings: _Findings, entry: _DataBlock, named: NamedObject, *, logical: bool
) -> list[Finding]:
    """Size, then physical hash, then rows; the first that is wrong speaks."""
    try:
        stream = findings.source.open_object(named.kind, named.hash)
    except NotFound:
        return [Finding(reason="ObjectMissing", message="the object is not there")]
    with stream, tempfile.TemporaryFile() as spool:
        seekable = stream.seekable()
        actual, size = _hash_stream(stream, named.size, None if seekable else spool)
        findings.size += min(size, named.size)
        if size != named.size:
            found = f"more than {named.size}" if size > named.size else str(size)
            message = f"{named.size} bytes were declared, it has {found}"
            return [Finding(reason="SizeMismatch", message=message)]
        physical = _check_physical(actual, named)
        may_differ = findings.kind is DatasetKind.Derivative and logical
        if named.kind is not ObjectKind.DATA or not logical or (physical and not may_differ):
            return physical
        rows = _check_rows(findings, entry, stream if seekable else spool)
        return _weigh(physical, rows)


def _check_physical(actual: Multihash, named: NamedObject) -> list[Finding]:
    if actual == named.hash:
        return []
    return [Finding(reason="PhysicalHashMismatch", message=f"its bytes hash to {actual}")]


def _check_rows(findings: _Findings, entry: _DataBlock, stream: BinaryIO) -> list[Finding]:
    declared = entry.event.new_data
    if declared is None:
        return []
    found = check_slice(stream, declared, offset_column=entry.offset_column, run=findings.run)
    if not any(finding.certain for finding in found):
        interval = declared.offset_interval
        findings.records += interval.end - interval.start + 1
    return found


def _weigh(physical: list[Finding], rows: list[Finding]) -> list[Finding]:
    """A derivative's slice with other bytes is fine if it can be read and the rows are right."""
    if not physical:
        return rows
    if any(finding.reason == "UnreadableSlice" for finding in rows):
        return physical
    if any(finding.certain for finding in rows):
        return rows
    message = physical[0].message + ", but its rows are the declared ones: it was encoded anew"
    return [Finding(reason=physical[0].reason, message=message, certain=False), *rows]


def _hash_stream(stream: BinaryIO, limit: int, copy: BinaryIO | None) -> tuple[Multihash, int]:
    """Hash and length of a stream, read until one byte past `limit`; copied if asked for."""
    state, size = hashlib.sha3_256(), 0
    while size <= limit and (chunk := stream.read(min(CHUNK_BYTES, limit + 1 - size))):
        state.update(chunk)
        size += len(chunk)
        if copy is not None:
            copy.write(chunk)
    return Multihash(SHA3_256, state.digest()), size


def _object_problem(entry: _DataBlock, named: NamedObject, found: Finding) -> Problem:
    return Problem(
        reason=found.reason,
        message=found.message,
        block=str(entry.block),
        sequence_number=entry.sequence_number,
        path=str(object_path(named.kind, named.hash)),
    )
