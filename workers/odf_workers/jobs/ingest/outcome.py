"""The result of a Batch: its events, and the receipts of its posts when the blocks exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddData, DataSlice, HashedBlock, MetadataEvent, SourceState
from odf_protocol.metadata.sources import MergeStrategyChangelogStream
from odf_protocol.sources.source_marks import with_marks
from odf_storage.datasets.job_payloads.ingest_job import (
    IngestReceipt,
    RanReceipt,
    facts_of_slices,
)

from ...merge.strategies import takes_operations
from ...plan.ingest import IngestPlan
from ...readers.values.rejected import Rejected
from ...slices.schema import Operation
from ...slices.write import Written
from ...stages.facts import Ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Options of a batch that a caller may set in addition to the rows."""

    source_state: SourceState | None = None
    """Position of the source after the batch; None is written as none."""
    watermark: Instant | None = None
    """Replaces the watermark computed from the rows."""
    marks: Mapping[str, Any] = field(default_factory=dict)
    """What the block notes of the bytes of the source."""
    max_vanish_percent: int = 100
    """Percentage of a snapshot's rows that may vanish at once; 100 allows all rows to vanish."""
    max_bad_rows: int | None = None
    """Limit of rows that are set aside; None means that one bad row fails the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostOutcome:
    """Result of one post of a Batch."""

    rows_read: int
    """Number of good rows."""
    done: Counter[Operation]
    """The post's rows in the slices, by operation."""
    rejected: Rejected | None = None
    warnings: tuple[str, ...] = ()
    ran: RanReceipt | None = None


def only_retracts(done: Counter[Operation]) -> bool:
    """Return whether there are rows, and all of them take others back."""
    return set(+done) == {Operation.RETRACT}


def ahead_warnings(plan: IngestPlan, ahead: Ahead) -> tuple[str, ...]:
    """Return the warning of rows that do not move the watermark."""
    if not ahead.rows:
        return ()
    rows = "1 row has an event time" if ahead.rows == 1 else f"{ahead.rows} rows have event times"
    stored = "it is stored, and does" if ahead.rows == 1 else "they are stored, and do"
    text = (
        f"{rows} too far ahead of the clock, up to {ahead.latest}: {stored} not move the "
        f"watermark, which follows event times up to {plan.latest}"
    )
    return (text,)


def receipts(
    plan: IngestPlan,
    posts: Sequence[PostOutcome],
    slices: Sequence[Written],
    blocks: Sequence[HashedBlock],
) -> list[IngestReceipt]:
    """Return the receipt of each post of a Batch. In the slices, its rows follow those of the
    previous post."""
    found, start = [], plan.next_offset
    for post in posts:
        end = start + post.done.total()
        made = blocks if end > start or len(posts) == 1 else ()
        found.append(_receipt(plan, post, range(start, end), slices, made))
        start = end
    return found


def _receipt(
    plan: IngestPlan,
    post: PostOutcome,
    offsets: range,
    slices: Sequence[Written],
    blocks: Sequence[HashedBlock],
) -> IngestReceipt:
    data = [each.data for each in slices if each.data is not None and _meets(each.data, offsets)]
    marks = [b.event.new_watermark for b in blocks if isinstance(b.event, AddData)]
    watermark = marks[-1] if marks else plan.watermark
    rejected = len(post.rejected or ())
    facts = facts_of_slices(data)
    if offsets:
        facts |= {"offset_start": offsets[0], "offset_end": offsets[-1]}
    return IngestReceipt(
        outcome="updated" if blocks else "up-to-date",
        prev_head=str(plan.head),
        head=str(blocks[-1].hash if blocks else plan.head),
        blocks=tuple(str(block.hash) for block in blocks),
        rows_read=post.rows_read + rejected,
        rows_added=post.done[Operation.APPEND],
        rows_known=max(0, post.rows_read - _rows_with_effect(plan, post.done)),
        rows_retracted=post.done[Operation.RETRACT],
        rows_corrected=post.done[Operation.CORRECT_TO],
        rows_rejected=rejected,
        watermark=str(watermark) if watermark else None,
        warnings=post.warnings,
        ran=post.ran,
        **facts,
    )


def _meets(data: DataSlice, offsets: range) -> bool:
    """Whether the slice contains rows with these offsets."""
    interval = data.offset_interval
    return bool(offsets) and interval.start <= offsets[-1] and offsets[0] <= interval.end


def _rows_with_effect(plan: IngestPlan, done: Counter[Operation]) -> int:
    """Return the number of rows of the batch that had an effect.

    In a snapshot, the absence of rows retracts them. A changelog contains both rows of a
    correction, other batches only the new one.
    """
    brought = {Operation.APPEND, Operation.CORRECT_TO}
    if takes_operations(plan.merge):
        brought.add(Operation.RETRACT)
    if isinstance(plan.merge, MergeStrategyChangelogStream):
        brought.add(Operation.CORRECT_FROM)
    return sum(done[operation] for operation in brought)


def data_events(
    plan: IngestPlan,
    slices: Sequence[Written],
    extras: Extras,
    *,
    links: Sequence[Attributes | None] = (),
) -> list[MetadataEvent]:
    """Return an `AddData` per slice; without rows, one if the watermark or the source state
    changed.

    The last event has the new source state, those before it the old one: a reader that stops
    between them reads the batch again.
    """
    events: list[MetadataEvent] = []
    offset, watermark = plan.prev_offset, plan.watermark
    for written, linked in zip(slices, links, strict=True):
        last = written is slices[-1]
        watermark = next_watermark(watermark, written, extras.watermark if last else None)
        events.append(
            AddData(
                prev_offset=offset,
                new_data=written.data,
                new_watermark=watermark,
                new_source_state=extras.source_state if last else plan.source_state,
                extra=with_marks(linked, extras.marks if last else {}),
            )
        )
        offset = written.data.offset_interval.end if written.data else offset
    if events:
        return events
    watermark = next_watermark(plan.watermark, None, extras.watermark)
    same_state = extras.source_state == plan.source_state
    empty = watermark is None and extras.source_state is None
    if empty or (watermark == plan.watermark and same_state):
        return []
    return [
        AddData(
            prev_offset=plan.prev_offset,
            new_watermark=watermark,
            new_source_state=extras.source_state,
            extra=with_marks(None, extras.marks),
        )
    ]


def next_watermark(
    previous: Instant | None, written: Written | None, explicit: Instant | None
) -> Instant | None:
    """Return the explicit watermark, else the latest event time so far; it never decreases."""
    latest = explicit if explicit is not None else (written.max_event_time if written else None)
    known = [when for when in (previous, latest) if when is not None]
    return max(known) if known else None
