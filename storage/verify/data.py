"""Are the objects of a data block what it declares? Several blocks at a time, in threads.

Size, physical hash and, for slices, rows; the first that is wrong speaks. A derivative's
slice may be encoded anew as long as its size and its rows stay the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from protocol.errors import Damaged, NotFound
from protocol.metadata.events import AddData, DatasetKind, ExecuteTransform
from protocol.multihash import Multihash
from protocol.sha3 import Steps, beside, lanes

from ..crew import each
from ..layout import object_path
from ..named import NamedObject, named_objects
from ..slices import Finding, checking_slice
from ..values import ObjectKind
from .bytes import HELD_BYTES, Buffers, Passing, filled
from .report import DAMAGED, KIND_OF_OBJECT, UNCLEAR, VALID, CheckedBlock, Problem
from .source import ChainSource

WRONG_SIZE = "SizeMismatch"
AHEAD = 4
"""Blocks in the hands of each thread or waiting for it."""
Rows = Callable[[Any], Steps[list[Finding]]]
"""Looks at the rows of a slice: a file, or a buffer of Arrow."""


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

    At most `AHEAD` blocks a thread are begun before the first is asked for, or as many as are
    hashed at once.
    """
    ahead = threads * max(AHEAD, lanes())
    return each(
        [partial(checking_block, checks, block) for block in blocks], threads=threads, ahead=ahead
    )


def checking_block(checks: Checks, block: DataBlock) -> Steps[Looked]:
    """One data block: its slice, then its checkpoint."""
    looked = Looked(described(block))
    for named in named_objects(block.event):
        looked.objects += 1
        for found in (yield from _checking_object(checks, block, named, looked)):
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


def _checking_object(
    checks: Checks, block: DataBlock, named: NamedObject, looked: Looked
) -> Steps[list[Finding]]:
    declared = block.event.new_data if named.kind is ObjectKind.DATA else None
    try:
        stream = checks.source.open_object(named.kind, named.hash)
    except NotFound:
        return [Finding(reason="ObjectMissing", message="the object is not there")]
    except Damaged as said:  # by the node that has it, which does not hand it out
        return [Finding(reason="PhysicalHashMismatch", message=said.message)]
    with stream:
        if declared is not None and checks.logical:
            rows = partial(checking_slice, declared=declared, offset_column=block.offset_column)
            way = _checking_held if named.size <= HELD_BYTES else _checking_passed
            return (yield from way(checks, named, stream, rows, looked))
        passing = Passing()
        yield [passing.read(stream, named.size, _dropped)]
        return _check_bytes(passing, named, looked)


def _checking_held(
    checks: Checks, named: NamedObject, stream: Any, rows: Rows, looked: Looked
) -> Steps[list[Finding]]:
    """Bytes and rows of a slice in memory, side by side."""
    passing, found = Passing(), list[Finding]()
    with checks.buffers.lent(named.size) as held:
        passing.size = filled(stream, held)
        if passing.size == named.size:
            found = yield from beside(passing.held(held), rows(pa.py_buffer(held)))
    wrong = _check_bytes(passing, named, looked)
    return wrong if _is_final(wrong, checks) else _weigh(wrong, _counted(found, looked))


def _checking_passed(
    checks: Checks, named: NamedObject, stream: Any, rows: Rows, looked: Looked
) -> Steps[list[Finding]]:
    """A slice too large for that: its bytes, then its rows where they lie, or from a temporary
    file if their source cannot go back."""
    passing = Passing()
    with ExitStack() as scratch:
        again: Any = stream
        keep: Callable[[bytes], object] = _dropped
        if not stream.seekable():
            again = scratch.enter_context(tempfile.TemporaryFile())
            keep = again.write
        yield [passing.read(stream, named.size, keep)]
        wrong = _check_bytes(passing, named, looked)
        if _is_final(wrong, checks):
            return wrong
        found = yield from rows(again)
    return _weigh(wrong, _counted(found, looked))


def _check_bytes(passing: Passing, named: NamedObject, looked: Looked) -> list[Finding]:
    """Size and physical hash of what has passed."""
    looked.size += min(passing.size, named.size)
    if passing.size != named.size:
        found = f"more than {named.size}" if passing.size > named.size else str(passing.size)
        message = f"{named.size} bytes were declared, it has {found}"
        return [Finding(reason=WRONG_SIZE, message=message)]
    if passing.hash == named.hash:
        return []
    message = f"its bytes hash to {passing.hash}"
    return [Finding(reason="PhysicalHashMismatch", message=message)]


def _is_final(wrong: list[Finding], checks: Checks) -> bool:
    """Whether rows cannot make up for it."""
    may_differ = checks.kind is DatasetKind.Derivative
    return any(not may_differ or finding.reason == WRONG_SIZE for finding in wrong)


def _counted(rows: list[Finding], looked: Looked) -> list[Finding]:
    """What was found about rows, which count unless they are wrong."""
    if not any(finding.certain for finding in rows):
        looked.records += looked.checked.records
    return rows


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


def _dropped(_: bytes) -> object:
    """Bytes that nobody needs again."""
