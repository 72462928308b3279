"""One ingest from start to end: read, preprocess, stage, merge, write, commit.

Everything visible happens in the commit, which moves the head by compare-and-swap. Whoever
loses that race plans again from the new head. A job that was cut short after its commit is
recognised when it is repeated, because equal plans give equal slices.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from protocol.arrow_schema import from_arrow, to_arrow
from protocol.attributes import Attributes
from protocol.chain.author import author
from protocol.chain.errors import ChainRuleBroken
from protocol.chain.state import ChainState
from protocol.errors import BadInput
from protocol.instant import Instant
from protocol.linked import link_columns, summary_of
from protocol.metadata.block import HashedBlock
from protocol.metadata.data import SourceState
from protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
)
from protocol.metadata.events import AddData, MetadataEvent, SetDataSchema
from protocol.metadata.reading import MergeStrategySnapshot
from protocol.metadata.transforms import Transform
from protocol.multihash import Multihash
from storage.dataset import Dataset
from storage.errors import RefConflict
from storage.ingest_job import IngestPayload, IngestReceipt, slice_receipt
from storage.linked import check_links, links_in
from storage.local_files import chunks
from storage.values import ObjectKey, ObjectKind

from ..engine.port import InvalidQuery, engine_for
from ..history import local_file
from ..merge.columns import Operation
from ..plan.ingest import IngestPlan, plan_ingest
from ..slice_schema import slice_schema
from ..slices import operations, write_slices
from ..write import SlicePlan, Written
from .bench import Bench
from .frame import BATCH_ROWS, Frame
from .merged import MergeRun, merged, takes_operations
from .met import relevant
from .read import open_frame
from .rejected import Rejected
from .stage import Staged, stage


class RowsVanished(BadInput):
    """A snapshot would retract more rows than its guard allows; likely one that was cut short."""


class EngineFailed(BadInput):
    """The engine could not run a query, for reasons of its own."""


FEW_ROWS = 10
"""So many rows of a snapshot may vanish whatever their share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What a caller may add to a batch beside its rows."""

    source_state: SourceState | None = None
    """Where the source left off after the batch; None is written as none."""
    watermark: Instant | None = None
    """Replaces the watermark computed from the rows."""
    max_vanish_percent: int = 100
    """Rows of a snapshot that may vanish at once; 100 lets all of them."""
    max_bad_rows: int | None = None
    """So many rows may be set aside; by default a bad one fails the batch."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Events of one ingest and what they were made from; nothing is committed yet."""

    events: list[MetadataEvent]
    slices: list[Written]
    rows_read: int
    """Those that are good."""
    rejected: Rejected | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """A batch as it came, and the schema of the slice it will be."""

    staged: Staged
    schema: pa.Schema
    rejected: Rejected | None


def run_ingest(
    dataset: Dataset,
    payload: IngestPayload,
    bench: Bench,
    *,
    now: Instant,
    repeated: bool = False,
) -> IngestReceipt:
    """Ingest an uploaded batch. `now` is the time of the request, the same for every attempt.

    Raises:
        NodeError: the batch, the source or the dataset's state do not allow it.
        RefConflict: other writers were first too often, or not where the caller expects.
    """
    with tempfile.TemporaryDirectory(prefix="ingest-", dir=bench.scratch) as folder:
        scratch = Path(folder)
        path = local_file(
            dataset, ObjectKind.UPLOAD, Multihash.parse(payload.upload), scratch / "upload"
        )
        if repeated and (done := _already_done(dataset, payload, path, bench, scratch, now)):
            return done
        for attempt in range(1, bench.commit_attempts + 1):
            state = dataset.state()
            plan = plan_ingest(state, payload, now=now)
            outcome = prepare(
                dataset, plan, path, bench, scratch, push_extras(state, payload, bench)
            )
            try:
                return commit(dataset, state, plan, outcome, bench, dry_run=payload.dry_run)
            except RefConflict:
                if attempt == bench.commit_attempts or payload.expected_head is not None:
                    raise
    raise AssertionError("unreachable: the loop returns or raises")


def push_extras(state: ChainState, payload: IngestPayload, bench: Bench) -> Extras:
    """What a push adds: it carries over where the source left off, which it knows nothing of."""
    limit, most = payload.max_vanish_percent, bench.max_rejected_rows
    if payload.max_bad_rows is not None:
        most = min(most, payload.max_bad_rows)
    return Extras(
        source_state=state.last_source_state,
        max_vanish_percent=100 if limit is None else limit,
        max_bad_rows=None if payload.on_bad_rows == "fail" else most,
    )


def prepare(
    dataset: Dataset,
    plan: IngestPlan,
    path: Path,
    bench: Bench,
    scratch: Path,
    extras: Extras = Extras(),
) -> Outcome:
    """Everything up to the commit: the slice lies in `scratch`, the events name it."""
    batch = read_batch(plan, path, bench, scratch, extras)
    if batch is None:
        return Outcome(events=data_events(plan, [], extras), slices=[], rows_read=0)
    rows = final_rows(dataset, plan, batch, bench, scratch)
    slices = write_slices(rows, slice_plan(plan, batch.schema), scratch, bench.cut)
    check_vanished(plan, batch.staged.rows, slices, extras.max_vanish_percent)
    events: list[MetadataEvent] = []
    if plan.schema is None:
        events.append(SetDataSchema(schema=from_arrow(batch.schema)))
    events += data_events(plan, slices, extras, links=_links(dataset, plan, slices, bench))
    return Outcome(
        events=events, slices=slices, rows_read=batch.staged.rows, rejected=batch.rejected
    )


def read_batch(
    plan: IngestPlan, path: Path, bench: Bench, scratch: Path, extras: Extras
) -> ReadBatch | None:
    """The batch as it came; None if it is empty and tells no schema."""
    rejected = Rejected(extras.max_bad_rows) if extras.max_bad_rows is not None else None
    frame = open_frame(plan.read, path, bench.limits, rejected)
    if frame is not None and plan.preprocess is not None:
        frame = _preprocessed(frame, plan.preprocess, bench, scratch)
    if frame is None:
        return None
    known = to_arrow(plan.schema) if plan.schema is not None else None
    staged = stage(
        Frame(frame.schema, bench.meter.rows(frame.batches)),
        scratch / "staged.parquet",
        vocab=plan.vocab,
        coerces=plan.coerces,
        takes_operations=takes_operations(plan.merge),
        known=known,
        rejected=rejected if plan.preprocess is None else None,
    )
    schema = slice_schema(staged.schema, plan.vocab, known)
    return ReadBatch(staged=staged, schema=schema, rejected=rejected)


def commit(
    dataset: Dataset,
    state: ChainState,
    plan: IngestPlan,
    outcome: Outcome,
    bench: Bench,
    *,
    dry_run: bool = False,
) -> IngestReceipt:
    """Put the slices, author the blocks, move the head once. Raises `RefConflict`."""
    blocks, _ = author(state, outcome.events, system_time=plan.system_time)
    if blocks and not dry_run:
        put_slices(dataset, outcome.slices, bench)
        dataset.commit(blocks, expected=plan.head)
    return receipt(plan, outcome, blocks)


def put_slices(dataset: Dataset, slices: Sequence[Written], bench: Bench) -> None:
    """Upload slices side by side; returns when all are there."""

    def put(written: Written) -> None:
        if written.data is not None:
            key = ObjectKey(dataset.id, ObjectKind.DATA, written.data.physical_hash)
            bench.objects.put(key, chunks(written.path))

    if len(slices) == 1:
        put(slices[0])
        return
    with ThreadPoolExecutor(bench.cut.threads, thread_name_prefix="uploads") as pool:
        for _ in pool.map(put, slices):
            pass


def receipt(plan: IngestPlan, outcome: Outcome, blocks: list[HashedBlock]) -> IngestReceipt:
    slices = [written.data for written in outcome.slices if written.data is not None]
    last = slices[-1] if slices else None
    done = operations(outcome.slices)
    added, corrected = done.get(Operation.APPEND, 0), done.get(Operation.CORRECT_TO, 0)
    marks = [b.event.new_watermark for b in blocks if isinstance(b.event, AddData)]
    watermark = marks[-1] if marks else plan.watermark
    rejected = len(outcome.rejected or ())
    return IngestReceipt(
        outcome="updated" if blocks else "up-to-date",
        prev_head=str(plan.head),
        head=str(blocks[-1].hash if blocks else plan.head),
        blocks=tuple(str(block.hash) for block in blocks),
        offset_start=slices[0].offset_interval.start if slices else None,
        offset_end=last.offset_interval.end if last else None,
        rows_read=outcome.rows_read + rejected,
        rows_added=added,
        rows_known=max(0, outcome.rows_read - added - corrected - _retracting(plan, done)),
        rows_retracted=done.get(Operation.RETRACT, 0),
        rows_corrected=corrected,
        rows_rejected=rejected,
        watermark=str(watermark) if watermark else None,
        physical_hash=str(last.physical_hash) if last else None,
        logical_hash=str(last.logical_hash) if last else None,
        size=last.size if last else None,
        slices=tuple(slice_receipt(each) for each in slices),
    )


def _retracting(plan: IngestPlan, done: Counter[Operation]) -> int:
    """Rows of the batch that retract; in a snapshot it is their absence that does."""
    return done.get(Operation.RETRACT, 0) if takes_operations(plan.merge) else 0


def final_rows(
    dataset: Dataset, plan: IngestPlan, batch: ReadBatch, bench: Bench, scratch: Path
) -> Iterator[pa.RecordBatch]:
    """The rows as they will be written, merged and in their order, without offsets and system
    time. Only a snapshot can have something to say without rows."""
    bench.meter.phase("merge")
    staged, schema = batch.staged, batch.schema
    snapshot = isinstance(plan.merge, MergeStrategySnapshot)
    if staged.rows == 0 and not (snapshot and plan.has_history):
        return iter(())
    met = relevant(dataset, plan, staged, schema, bench, scratch)
    if met.staged.rows == 0 and not met.rows:
        return iter(())
    run = MergeRun(
        staged=met.staged,
        strategy=plan.merge,
        vocab=plan.vocab,
        source_event_time=plan.source_event_time,
        schema=schema,
        history=met.history,
        history_rows=met.rows,
        projected=met.projected,
        distinct=met.distinct,
        partitions=bench.partitions,
        small_rows=bench.small_rows,
    )
    return bench.meter.rows(merged(run, bench.session, scratch))


def slice_plan(plan: IngestPlan, schema: pa.Schema) -> SlicePlan:
    """What the rows of a batch have in common once they are written."""
    return SlicePlan(
        schema=schema,
        vocab=plan.vocab,
        start=next_offset(plan),
        system_time=plan.system_time,
        source_event_time=plan.source_event_time,
    )


def next_offset(plan: IngestPlan) -> int:
    """Of the first row that is added."""
    return 0 if plan.prev_offset is None else plan.prev_offset + 1


def check_vanished(
    plan: IngestPlan, rows: int, slices: Sequence[Written], max_percent: int
) -> None:
    """The guard of snapshots: how much of the state may be absent from the batch.

    A few rows may always vanish; from an empty batch none may, unless all may.

    Raises:
        RowsVanished: more of them than `max_percent` of the rows that stood before.
    """
    done = operations(slices)
    vanished = done[Operation.RETRACT]
    if not isinstance(plan.merge, MergeStrategySnapshot) or vanished == 0 or max_percent >= 100:
        return
    stood = rows - done[Operation.APPEND] + vanished
    if rows == 0 or (vanished > FEW_ROWS and vanished * 100 > max_percent * stood):
        raise RowsVanished(
            f"{vanished} of {stood} rows are gone from the snapshot, and at most {max_percent} "
            "percent may go at once: look whether it was cut short, or allow more",
            vanished=vanished,
            stood=stood,
            max_vanish_percent=max_percent,
        )


def _links(
    dataset: Dataset, plan: IngestPlan, slices: Sequence[Written], bench: Bench
) -> list[Attributes | None]:
    """For each slice what it links to. Raises `InvalidValue`, `DanglingReference`."""
    columns = link_columns(plan.schema)
    if not columns:
        return [None] * len(slices)
    found = [links_in(written.path, columns) for written in slices]
    return [summary_of(check_links(bench.objects, dataset.id, links)) for links in found]


def data_events(
    plan: IngestPlan,
    slices: Sequence[Written],
    extras: Extras,
    *,
    links: Sequence[Attributes | None] = (),
) -> list[MetadataEvent]:
    """An `AddData` per slice; without rows one if the watermark or the source state changed.

    The last one says where the source left off now, those before it where it was: whoever
    stops between them reads the batch again.
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
                extra=linked,
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
        )
    ]


def next_watermark(
    previous: Instant | None, written: Written | None, explicit: Instant | None
) -> Instant | None:
    """The explicit one, else the latest event time so far; it never goes back."""
    latest = explicit if explicit is not None else (written.max_event_time if written else None)
    known = [when for when in (previous, latest) if when is not None]
    return max(known) if known else None


def _preprocessed(frame: Frame, transform: Transform, bench: Bench, scratch: Path) -> Frame:
    engine = engine_for(transform, (bench.engine, *bench.more_engines))
    source, target = scratch / "input.parquet", scratch / "preprocessed.parquet"
    with pq.ParquetWriter(source, frame.schema, compression="lz4") as writer:
        for batch in frame.batches:
            writer.write_batch(batch)
    response = engine.execute_raw_query(
        RawQueryRequest(
            input_data_paths=(str(source),), transform=transform, output_data_path=str(target)
        )
    )
    if isinstance(response, RawQueryResponseInvalidQuery):
        raise InvalidQuery(f"preprocessing failed: {response.message}")
    if isinstance(response, RawQueryResponseInternalError):
        raise EngineFailed(f"the engine failed while preprocessing: {response.message}")
    file = pq.ParquetFile(target)
    return Frame(file.schema_arrow, file.iter_batches(BATCH_ROWS))


def _already_done(
    dataset: Dataset, payload: IngestPayload, path: Path, bench: Bench, scratch: Path, now: Instant
) -> IngestReceipt | None:
    """The receipt of an earlier attempt that committed but could not say so."""
    blocks = [b for b in dataset.blocks() if b.block.system_time >= now]
    for at, block in enumerate(blocks):
        if not isinstance(block.event, AddData | SetDataSchema) or block.prev is None:
            continue
        with suppress(BadInput, RefConflict, ChainRuleBroken):
            state = dataset.state(block.prev)
            plan = plan_ingest(state, payload, now=now)
            if plan.system_time != block.block.system_time:
                continue
            outcome = prepare(
                dataset, plan, path, bench, scratch, push_extras(state, payload, bench)
            )
            ours, _ = author(state, outcome.events, system_time=plan.system_time)
            if ours and [b.hash for b in ours] == [b.hash for b in blocks[at : at + len(ours)]]:
                return receipt(plan, outcome, ours)
    return None
