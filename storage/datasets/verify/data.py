"""Are the objects of a data block what it declares? Several blocks at a time, in threads.

Size, physical hash and, for slices, rows; the first that is wrong speaks. A derivative's
slice may be encoded anew as long as its size and its rows stay the same.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa

from odf_node.protocol.errors import Damaged, NotFound
from odf_node.protocol.metadata.events import AddData, DatasetKind, ExecuteTransform
from odf_node.protocol.multihash import SHA3_256, Multihash

from ...lanes import Stream, hash_all, lanes
from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..contents.named_objects import NamedObject, named_objects
from ..contents.slices import Finding, SliceCheck
from ..job_payloads.verify_report import (
    DAMAGED,
    KIND_OF_OBJECT,
    UNCLEAR,
    VALID,
    CheckedBlock,
    Problem,
)
from .bytes import HELD_BYTES, Buffers, Passing, filled
from .source import ChainSource

WRONG_SIZE = "SizeMismatch"
GROUP_BYTES = 128 << 20
"""Bytes of the objects that a thread looks at together, unless one is larger."""
GROUP_BLOCKS = 16


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
class BlockFindings:
    """What a look at one data block came to."""

    checked: CheckedBlock
    objects: int = 0
    size: int = 0
    records: int = 0
    """Rows that were hashed and are right."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def check_blocks(
    checks: Checks, blocks: Sequence[DataBlock], *, threads: int
) -> Iterator[BlockFindings]:
    """Look at the objects of each block; results come in the order of `blocks`.

    Each thread takes a few blocks at a time, whose bytes and columns are hashed side by side. At
    most one group more than there are threads is begun before the first is asked for.
    """
    waiting: deque[Future[list[BlockFindings]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        try:
            for group in _groups(checks, blocks, threads):
                waiting.append(pool.submit(_check_group, checks, group))
                if len(waiting) > threads:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _groups(checks: Checks, blocks: Sequence[DataBlock], threads: int) -> Iterator[list[DataBlock]]:
    """Blocks that are looked at together: few enough that no thread is without. With rows, slices
    fit into memory; without, each is one stream of as many as go side by side."""
    sizes = [sum(named.size for named in named_objects(block.event)) for block in blocks]
    most = min(GROUP_BYTES if checks.logical else sum(sizes), sum(sizes) // (2 * threads))
    blocks_at_once = GROUP_BLOCKS if checks.logical else max(GROUP_BLOCKS // 2, lanes())
    group: list[DataBlock] = []
    size_of_group = 0
    for block, size in zip(blocks, sizes, strict=True):
        if group and (size_of_group + size > most or len(group) == blocks_at_once):
            yield group
            group, size_of_group = [], 0
        group.append(block)
        size_of_group += size
    if group:
        yield group


def _check_group(checks: Checks, blocks: Sequence[DataBlock]) -> list[BlockFindings]:
    with ExitStack() as opened:
        checked = [
            (block, [_ObjectCheck(checks, block, named, opened) for named in objects])
            for block, objects in ((block, named_objects(block.event)) for block in blocks)
        ]
        streams = [
            (at, each, stream)
            for _, objects in checked
            for each in objects
            for at, stream in enumerate(each.streams)
        ]
        streams.sort(key=itemgetter(0))  # whole files first, as they are the longest
        digests: dict[_ObjectCheck, list[bytes]] = {each: [] for _, each, _ in streams}
        hashed = hash_all(stream for _, _, stream in streams)
        for (_, each, _), digest in zip(streams, hashed, strict=True):
            digests[each].append(digest)
        return [_findings_of(block, objects, digests) for block, objects in checked]


def _findings_of(
    block: DataBlock, objects: Sequence[_ObjectCheck], digests: Mapping[_ObjectCheck, list[bytes]]
) -> BlockFindings:
    """What a look at one data block came to: its slice, then its checkpoint."""
    findings = BlockFindings(described(block), objects=len(objects))
    for each in objects:
        for found in each.found(digests.get(each, ()), findings):
            problem = _problem(block, each.named, found)
            (findings.problems if found.certain else findings.notes).append(problem)
    verdict = DAMAGED if findings.problems else UNCLEAR if findings.notes else VALID
    findings.checked = described(block, objects=verdict)
    return findings


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


class _ObjectCheck:
    """A look at one object: whoever had the `streams` hashed asks what was found.

    A slice that fits into memory has its bytes and its rows hashed side by side.
    """

    def __init__(
        self, checks: Checks, block: DataBlock, named: NamedObject, opened: ExitStack
    ) -> None:
        self.streams: Sequence[Stream] = ()
        self.named = named
        self._checks, self._block, self._opened = checks, block, opened
        self._declared = block.event.new_data if named.kind is ObjectKind.DATA else None
        self._passing = Passing()
        self._rows: SliceCheck | None = None
        self._large: Any = None
        self._missing: list[Finding] = []
        try:
            stream = opened.enter_context(checks.source.open_object(named.kind, named.hash))
        except NotFound:
            self._missing = [Finding(reason="ObjectMissing", message="the object is not there")]
        except Damaged as said:  # by the node that has it, which does not hand it out
            self._missing = [Finding(reason="PhysicalHashMismatch", message=said.message)]
        else:
            self._begin(stream)

    def found(self, digests: Sequence[bytes], findings: BlockFindings) -> list[Finding]:
        """What is wrong with it, by the digests of the streams. Counts in `findings`."""
        if self._missing:
            return self._missing
        if self._large is not None:
            return self._found_large(self._large, findings)
        wrong = _check_bytes(self._passing, digests[:1], self.named, findings)
        if self._rows is None or _is_final(wrong, self._checks):
            return wrong
        return _weigh(wrong, _counted(self._rows.found(digests[1:]), findings))

    def _begin(self, stream: Any) -> None:
        size = self.named.size
        if self._declared is None or not self._checks.logical:
            self.streams = [self._passing.read(stream, size, _dropped)]
        elif size > HELD_BYTES:
            self._large = stream
        else:
            buffer = self._opened.enter_context(self._checks.buffers.lent(size))
            self._passing.size = filled(stream, buffer)
            if self._passing.size == size:
                self._rows = self._row_check(pa.py_buffer(buffer))
                self.streams = [[buffer], *self._rows.streams]

    def _row_check(self, source: Any) -> SliceCheck:
        declared = self._declared
        if declared is None:
            raise TypeError("only slices have rows")
        return SliceCheck(source, declared, offset_column=self._block.offset_column)

    def _found_large(self, stream: Any, findings: BlockFindings) -> list[Finding]:
        """Of a slice too large for memory: its bytes, then its rows where they lie, or from a
        temporary file if their source cannot go back."""
        again: Any = stream
        keep: Callable[[bytes], object] = _dropped
        if not stream.seekable():
            again = tempfile.TemporaryFile()  # noqa: SIM115 – closed with what else is open
            keep = self._opened.enter_context(again).write
        digests = hash_all([self._passing.read(stream, self.named.size, keep)])
        wrong = _check_bytes(self._passing, digests, self.named, findings)
        if _is_final(wrong, self._checks):
            return wrong
        rows = self._row_check(again)
        return _weigh(wrong, _counted(rows.found(hash_all(rows.streams)), findings))


def _check_bytes(
    passing: Passing, digests: Sequence[bytes], named: NamedObject, findings: BlockFindings
) -> list[Finding]:
    """Size and physical hash of what has passed; bytes of another size may have no digest."""
    findings.size += min(passing.size, named.size)
    if passing.size != named.size:
        found = f"more than {named.size}" if passing.size > named.size else str(passing.size)
        message = f"{named.size} bytes were declared, it has {found}"
        return [Finding(reason=WRONG_SIZE, message=message)]
    actual = Multihash(SHA3_256, digests[0])
    if actual == named.hash:
        return []
    message = f"its bytes hash to {actual}"
    return [Finding(reason="PhysicalHashMismatch", message=message)]


def _is_final(wrong: list[Finding], checks: Checks) -> bool:
    """Whether rows cannot make up for it."""
    may_differ = checks.kind is DatasetKind.Derivative
    return any(not may_differ or finding.reason == WRONG_SIZE for finding in wrong)


def _counted(rows: list[Finding], findings: BlockFindings) -> list[Finding]:
    """What was found about rows, which count unless they are wrong."""
    if not any(finding.certain for finding in rows):
        findings.records += findings.checked.records
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
