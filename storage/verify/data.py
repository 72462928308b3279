"""Are the objects of a data block what it declares? Several blocks at a time, in threads.

Size, physical hash and, for slices, rows; the first that is wrong speaks. A derivative's
slice may be encoded anew as long as its size and its rows stay the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from protocol.arrow_digest import Run, in_order
from protocol.errors import NotFound
from protocol.metadata.events import AddData, DatasetKind, ExecuteTransform
from protocol.multihash import Multihash

from ..hashing import Job, shared
from ..layout import object_path
from ..named import NamedObject, named_objects
from ..slices import Finding, check_slice
from ..values import ObjectKind
from .bytes import Buffers, content_of
from .report import DAMAGED, KIND_OF_OBJECT, UNCLEAR, VALID, CheckedBlock, Problem
from .source import ChainSource

AHEAD = 4
"""Blocks in the hands of each thread or waiting for it."""


@dataclass(frozen=True, slots=True)
class DataBlock:
    """What has to be known of a data block."""

    block: Multihash
    sequence_number: int
    event: AddData | ExecuteTransform
    offset_column: str | None
    """None: the vocabulary is not known, so offsets are not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """How to look: rows too, or bytes only; a derivative is judged by its rows."""

    source: ChainSource
    kind: DatasetKind | None
    logical: bool = True
    buffers: Buffers = field(default_factory=Buffers)


@dataclass(slots=True)
class Looked:
    """What a look at one data block came to."""

    checked: CheckedBlock
    objects: int = 0
    size: int = 0
    records: int = 0
    """Rows that were hashed and are right."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def check_blocks(checks: Checks, blocks: Sequence[DataBlock], *, threads: int) -> Iterator[Looked]:
    """Look at the objects of each block; results come in the order of `blocks`.

    At most `AHEAD` blocks a thread are begun before the first is asked for. Threads that find
    no block left help with the columns of the last ones.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="verifying")
    left = deque(blocks)

    def run(jobs: Iterable[Job]) -> None:
        shared(jobs, pool, 0 if left else threads - 1)

    def check(block: DataBlock) -> Looked:
        left.popleft()
        return check_block(checks, block, run)

    try:
        waiting: deque[Future[Looked]] = deque()
        for block in blocks:
            waiting.append(pool.submit(check, block))
            if len(waiting) >= threads * AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def check_block(checks: Checks, block: DataBlock, run: Run = in_order) -> Looked:
    """One data block: its slice, then its checkpoint."""
    looked = Looked(described(block))
    for named in named_objects(block.event):
        looked.objects += 1
        for found in _check_object(checks, block, named, looked, run):
            problem = _problem(block, named, found)
            (looked.problems if found.certain else looked.notes).append(problem)
    verdict = DAMAGED if looked.problems else UNCLEAR if looked.notes else VALID
    looked.checked = described(block, objects=verdict)
    return looked


def described(block: DataBlock, *, objects: str | None = None) -> CheckedBlock:
    """The line of a report for a block."""
    declared = block.event.new_data
    interval = None if declared is None else declared.offset_interval
    return CheckedBlock(
        block=str(block.block),
        sequence_number=block.sequence_number,
        event=type(block.event).__name__,
        records=0 if interval is None else interval.end - interval.start + 1,
        size=sum(named.size for named in named_objects(block.event)),
        objects=objects,
    )


def _check_object(
    checks: Checks, block: DataBlock, named: NamedObject, looked: Looked, run: Run
) -> list[Finding]:
    try:
        stream = checks.source.open_object(named.kind, named.hash)
    except NotFound:
        return [Finding(reason="ObjectMissing", message="the object is not there")]
    may_differ = checks.kind is DatasetKind.Derivative
    deep = checks.logical and named.kind is ObjectKind.DATA
    with stream, content_of(stream, named.size, checks.buffers, keep=deep) as content:
        looked.size += min(content.size, named.size)
        if content.size != named.size:
            found = f"more than {named.size}" if content.size > named.size else str(content.size)
            message = f"{named.size} bytes were declared, it has {found}"
            return [Finding(reason="SizeMismatch", message=message)]
        physical = _check_physical(content.hash, named)
        if not deep or (physical and not may_differ):
            return physical
        return _weigh(physical, _check_rows(block, content.again, looked, run))


def _check_physical(actual: Multihash, named: NamedObject) -> list[Finding]:
    if actual == named.hash:
        return []
    return [Finding(reason="PhysicalHashMismatch", message=f"its bytes hash to {actual}")]


def _check_rows(block: DataBlock, stream: Any, looked: Looked, run: Run) -> list[Finding]:
    declared = block.event.new_data
    if declared is None:
        return []
    found = check_slice(stream, declared, offset_column=block.offset_column, run=run)
    if not any(finding.certain for finding in found):
        interval = declared.offset_interval
        looked.records += interval.end - interval.start + 1
    return found


def _weigh(physical: list[Finding], rows: list[Finding]) -> list[Finding]:
    """A derivative's slice with other bytes is fine if its rows are known to be right."""
    if not physical:
        return rows
    if any(finding.reason == "UnreadableSlice" for finding in rows):
        return physical
    if any(finding.certain for finding in rows):
        return rows
    if rows:  # nothing proves that these bytes hold the declared rows
        return [*physical, *rows]
    message = physical[0].message + ", but its rows are the declared ones: it was encoded anew"
    return [Finding(reason=physical[0].reason, message=message, certain=False)]


def _problem(block: DataBlock, named: NamedObject, found: Finding) -> Problem:
    return Problem(
        kind=KIND_OF_OBJECT[named.kind],
        reason=found.reason,
        message=found.message,
        block=str(block.block),
        sequence_number=block.sequence_number,
        path=str(object_path(named.kind, named.hash)),
    )
