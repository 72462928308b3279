"""Verify the objects of data blocks: the stage, and the division of blocks into splits.

The streams of all objects of a split (bytes of files, columns of rows) are hashed in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter

from odf_protocol.metadata.events import AddData, ExecuteTransform
from odf_protocol.multihash import Multihash

from ...lanes import hash_all, lanes
from ...stores.index.named_objects import NamedObject, named_objects
from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..contents.slices import Difference
from ..job_payloads.verify_job import (
    DAMAGED,
    KIND_OF_OBJECT,
    UNCLEAR,
    VALID,
    CheckedBlock,
    VerifyProblem,
)
from .objects import Checks, Declared, ObjectCheck, ObjectVerdict
from .source import ObjectSource
from .stages import Split

GROUP_BYTES = 128 << 20
"""Limit of the bytes of objects that are checked together, unless one object is larger."""
GROUP_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class DataBlock:
    """The facts about a data block that its check needs."""

    block: Multihash
    sequence_number: int
    event: AddData | ExecuteTransform
    offset_column: str | None
    """None if the vocabulary is not known; offsets are not checked then."""


@dataclass(slots=True)
class BlockFindings:
    """The result of the check of one data block."""

    checked: CheckedBlock
    objects: int = 0
    size: int = 0
    records: int = 0
    """Number of rows that were hashed and are right."""
    problems: list[VerifyProblem] = field(default_factory=list)
    notes: list[VerifyProblem] = field(default_factory=list)
    warnings: list[VerifyProblem] = field(default_factory=list)


def splits_of(
    blocks: Sequence[DataBlock], *, logical: bool, width: int
) -> Iterator[Split[list[DataBlock]]]:
    """Yield groups of blocks to check together, in order, small enough to keep `width` workers
    busy. With rows, the slices of a group fit into memory; without, each object is one stream,
    and a group has as many as are hashed in parallel."""
    sizes = [sum(named.size for named in named_objects(block.event)) for block in blocks]
    most = min(GROUP_BYTES if logical else sum(sizes), sum(sizes) // (2 * width))
    blocks_at_once = GROUP_BLOCKS if logical else max(GROUP_BLOCKS // 2, lanes())
    group: list[DataBlock] = []
    size_of_group = 0
    for block, size in zip(blocks, sizes, strict=True):
        if group and (size_of_group + size > most or len(group) == blocks_at_once):
            yield _split(group)
            group, size_of_group = [], 0
        group.append(block)
        size_of_group += size
    if group:
        yield _split(group)


def _split(group: list[DataBlock]) -> Split[list[DataBlock]]:
    return Split(group, tuple(named for block in group for named in named_objects(block.event)))


def check_blocks(
    checks: Checks, source: ObjectSource, blocks: Sequence[DataBlock]
) -> list[BlockFindings]:
    """The stage: check the objects of each block; return the results in the order of `blocks`."""
    with ExitStack() as opened:
        checked = [
            (
                block,
                [
                    (named, ObjectCheck(checks, source, _claim(block, named), opened))
                    for named in named_objects(block.event)
                ],
            )
            for block in blocks
        ]
        digests = _hashed([check for _, objects in checked for _, check in objects])
        return [
            _findings_of(
                block, [(named, check.verdict(digests[check])) for named, check in objects]
            )
            for block, objects in checked
        ]


def _claim(block: DataBlock, named: NamedObject) -> Declared:
    rows = block.event.new_data if named.kind is ObjectKind.DATA else None
    return Declared(named=named, rows=rows, offset_column=block.offset_column)


def _hashed(checks: Sequence[ObjectCheck]) -> dict[ObjectCheck, list[bytes]]:
    """Return the digests of the streams of each check. Hash whole files first, since they are the
    longest streams."""
    streams = [(at, each, stream) for each in checks for at, stream in enumerate(each.streams)]
    streams.sort(key=itemgetter(0))
    digests: dict[ObjectCheck, list[bytes]] = {each: [] for each in checks}
    hashed = hash_all(stream for _, _, stream in streams)
    for (_, each, _), digest in zip(streams, hashed, strict=True):
        digests[each].append(digest)
    return digests


def _findings_of(
    block: DataBlock, verdicts: Sequence[tuple[NamedObject, ObjectVerdict]]
) -> BlockFindings:
    """Return the findings for one data block: its slice, then its checkpoint."""
    findings = BlockFindings(described(block), objects=len(verdicts))
    for named, verdict in verdicts:
        findings.size += verdict.size
        if verdict.has_right_rows:
            findings.records += findings.checked.records
        for found in verdict.findings:
            listed = findings.problems if found.certain else findings.notes
            if found.remark:
                listed = findings.warnings
            listed.append(_problem(block, named, found))
    state = DAMAGED if findings.problems else UNCLEAR if findings.notes else VALID
    findings.checked = described(block, objects=state)
    return findings


def described(block: DataBlock, *, objects: str | None = None) -> CheckedBlock:
    """Return the entry of a block in the report."""
    declared = block.event.new_data
    interval = None if declared is None else declared.offset_interval
    return CheckedBlock(
        block=str(block.block),
        sequence_number=block.sequence_number,
        event=type(block.event).__name__,
        records=0 if interval is None else interval.count,
        size=sum(named.size for named in named_objects(block.event)),
        objects=objects,
    )


def _problem(block: DataBlock, named: NamedObject, found: Difference) -> VerifyProblem:
    return VerifyProblem(
        kind=KIND_OF_OBJECT[named.kind],
        reason=found.reason,
        message=found.message,
        block=str(block.block),
        sequence_number=block.sequence_number,
        path=str(object_path(named.kind, named.hash)),
    )
