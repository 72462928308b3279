"""Are the objects of data blocks what they declare? The stage, and how blocks are cut into splits.

The streams of all objects of a split, bytes of files and columns of rows, are hashed side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter

from odf_node.protocol.metadata.events import AddData, ExecuteTransform
from odf_node.protocol.multihash import Multihash

from ...lanes import hash_all, lanes
from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..contents.named_objects import NamedObject, named_objects
from ..contents.slices import Finding
from ..job_payloads.verify_report import (
    DAMAGED,
    KIND_OF_OBJECT,
    UNCLEAR,
    VALID,
    CheckedBlock,
    Problem,
)
from .objects import Checks, Claim, ObjectCheck, Verdict
from .source import ObjectSource
from .stages import Split

GROUP_BYTES = 128 << 20
"""Bytes of the objects that are looked at together, unless one is larger."""
GROUP_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class DataBlock:
    """What has to be known of a data block."""

    block: Multihash
    sequence_number: int
    event: AddData | ExecuteTransform
    offset_column: str | None
    """None: the vocabulary is not known, so offsets are not looked at."""


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


def splits_of(
    blocks: Sequence[DataBlock], *, logical: bool, width: int
) -> Iterator[Split[list[DataBlock]]]:
    """Blocks that are looked at together, in their order: few enough that none of `width` is
    without. With rows, slices fit into memory; without, each is one stream of as many as go side
    by side."""
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
    """The stage: look at the objects of each block; results come in the order of `blocks`."""
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


def _claim(block: DataBlock, named: NamedObject) -> Claim:
    rows = block.event.new_data if named.kind is ObjectKind.DATA else None
    return Claim(named=named, rows=rows, offset_column=block.offset_column)


def _hashed(checks: Sequence[ObjectCheck]) -> dict[ObjectCheck, list[bytes]]:
    """Digests of the streams of each; whole files come first, as they are the longest."""
    streams = [(at, each, stream) for each in checks for at, stream in enumerate(each.streams)]
    streams.sort(key=itemgetter(0))
    digests: dict[ObjectCheck, list[bytes]] = {each: [] for each in checks}
    hashed = hash_all(stream for _, _, stream in streams)
    for (_, each, _), digest in zip(streams, hashed, strict=True):
        digests[each].append(digest)
    return digests


def _findings_of(
    block: DataBlock, verdicts: Sequence[tuple[NamedObject, Verdict]]
) -> BlockFindings:
    """What a look at one data block came to: its slice, then its checkpoint."""
    findings = BlockFindings(described(block), objects=len(verdicts))
    for named, verdict in verdicts:
        findings.size += verdict.size
        if verdict.has_right_rows:
            findings.records += findings.checked.records
        for found in verdict.findings:
            listed = findings.problems if found.certain else findings.notes
            listed.append(_problem(block, named, found))
    state = DAMAGED if findings.problems else UNCLEAR if findings.notes else VALID
    findings.checked = described(block, objects=state)
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


def _problem(block: DataBlock, named: NamedObject, found: Finding) -> Problem:
    return Problem(
        kind=KIND_OF_OBJECT[named.kind],
        reason=found.reason,
        message=found.message,
        block=str(block.block),
        sequence_number=block.sequence_number,
        path=str(object_path(named.kind, named.hash)),
    )
