"""A trial: compute the content of datasets that manifests describe. Nothing is committed.

A dataset in a trial: its known properties, and a file of some of its rows.

Trial of a derivative: its query runs on the first rows of its inputs.

Trial of a root: its sample passes through all stages of a batch, but is not committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import structs

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.columns.arrow_schema import from_arrow, to_arrow
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    ExecuteTransform,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetPollingSource,
    SetTransform,
    TransformRequest,
    TransformRequestInput,
    Watermark,
)
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.trial_job import (
    TrialDataset,
    TrialOutcome,
    TrialPayload,
    TrialReceipt,
)
from odf_storage.datasets.node.rights import inputs_not_here
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.records import DataFormat, shaped
from odf_storage.datasets.read.scan import fitted
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.values import DatasetEntry, ObjectKind, Visibility

from ...engines.port.port import Engine, engine_for
from ...plan.ingest import IngestPlan, plan_source, select_source
from ...plan.transform import NO_SCHEMA
from ...readers.formats.read import for_media_type
from ...slices.write import Written, parquet_settings
from ..ingest.outcome import Extras
from ..ingest.run import prepare_post, write_post
from ..transform.chains import may_change
from ..transform.check import columns_of, expected_schema
from ..transform.iteration import ask, vocabulary, write_schema
from ..transform.result import InputFiles, checked, work_folder
from ..transform.run import input_files
from ..work.context import WorkerContext, readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A dataset of the node, or one that a manifest describes."""

    dataset: Dataset
    state: ChainState
    schema: DataSchema | None = None
    """Schema of its slices; None if it is not known yet."""
    reason: str | None = None
    """Reason why the schema is not known."""
    rows: pa.Table | None = None
    """Rows of its slices, from offset 0; None if it has none for a trial."""
    rows_read: int | None = None
    warnings: tuple[str, ...] = field(default=())
    engine: Engine | None = None

    def outcome(self, shown_rows: int) -> TrialOutcome:
        """Return the result of the trial for the requester."""
        rows = None if self.rows is None else self.rows.slice(0, shown_rows)
        return TrialOutcome(
            alias=str(self.dataset.entry.alias),
            schema=None if self.schema is None else to_data(self.schema),
            reason=self.reason,
            rows=tuple(shaped(rows, DataFormat.AOS)),
            rows_read=self.rows_read,
            rows_made=None if self.rows is None else self.rows.num_rows,
            warnings=self.warnings,
            engine=None if self.engine is None else self.engine.name,
            engine_version=None if self.engine is None else self.engine.version,
        )

    def write_rows(self, path: Path) -> None:
        """Write the rows to a file that an engine can read; older rows lack later columns."""
        if self.rows is not None and self.schema is not None:
            arrow = to_arrow(self.schema)
            batches = [fitted(batch, arrow) for batch in self.rows.to_batches()]
            rows = pa.Table.from_batches(batches, arrow)
            pq.write_table(rows, path, **parquet_settings(arrow))


def try_transform(
    made: Tried,
    before: Mapping[DatasetId, Tried],
    stores: Stores,
    context: WorkerContext,
    folder: Path,
    *,
    input_rows: int,
    now: Instant,
) -> Tried:
    """Return the derivative with the result of its query on the first rows of its inputs. These are
    datasets of the same trial, or of the node.

    Raises the same errors as `run_check`.
    """
    folder.mkdir(parents=True)
    transform = made.state.transform
    if transform is None:
        return replace(made, reason="it has no transform yet")
    engine = engine_for(transform.transform, context.engines.all)
    files = input_files(folder, context.scratch, context.transforms)
    inputs: list[tuple[Tried, DataSchema, str]] = []
    for number, (known, alias) in enumerate(_inputs(transform, before, stores)):
        if known.dataset.id not in before:
            known = _first_rows(known, context, files, folder / f"input-{number}", input_rows)
        if known.schema is None:
            return replace(made, reason=f"{NO_SCHEMA}: {alias}")
        inputs.append((known, known.schema, alias))
    data, checkpoint = folder / "data.parquet", folder / "checkpoint"
    vocab = made.state.vocab
    request = TransformRequest(
        dataset_id=made.dataset.id,
        dataset_alias=made.dataset.entry.alias,
        system_time=now,
        vocab=vocabulary(vocab),
        transform=transform.transform,
        query_inputs=tuple(
            _request_input(known, schema, alias, folder / f"rows-{number}.parquet", now)
            for number, (known, schema, alias) in enumerate(inputs)
        ),
        next_offset=0,
        new_checkpoint_path=str(checkpoint),
        new_data_path=str(data),
    )
    response, heard = ask(engine, request, context.job_progress)
    found = checked(response, data, checkpoint, vocab=vocab, schema=None, next_offset=0)
    found.check_values()
    counts = [known.rows.num_rows for known, *_ in inputs if known.rows is not None]
    return replace(
        made,
        schema=from_arrow(found.arrow),
        rows=pq.read_table(found.data_path) if found.data is not None else None,
        rows_read=sum(counts) if counts else None,
        warnings=tuple(heard.warnings),
        engine=engine,
    )


def _inputs(
    transform: SetTransform, before: Mapping[DatasetId, Tried], stores: Stores
) -> Sequence[tuple[Tried, str]]:
    """Return the inputs in their order, with their names in the query. Raises `InputsNotHere`."""
    found, missing = list[tuple[Tried, str]](), list[str]()
    for item in transform.inputs:
        known = before.get(item.dataset_ref.id) if item.dataset_ref.id is not None else None
        try:
            if known is None:
                dataset = stores.dataset(item.dataset_ref)
                known = Tried(dataset=dataset, state=dataset.state())
            found.append((known, str(item.alias)))
        except DatasetNotFound:
            missing.append(f"{item.alias} ({item.dataset_ref})")
    if missing:
        raise inputs_not_here(missing)
    return found


def _first_rows(
    known: Tried, context: WorkerContext, files: InputFiles, folder: Path, most: int
) -> Tried:
    """Return a dataset of the node with its columns and its first rows.

    Raises `ObjectNotFound`.
    """
    schema = known.state.data_schema
    if schema is None:
        folder.mkdir()
        schema = expected_schema(known.state, context.engines, context.job_progress, folder)
        return replace(known, schema=schema)
    return replace(known, schema=schema, rows=_read(known.dataset, files, most))


def _read(dataset: Dataset, files: InputFiles, most: int) -> pa.Table | None:
    """Read the first rows of the first slice, at most `most`."""
    for page in dataset.pages():
        for block in page:
            event = block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                path = files.get(dataset, ObjectKind.DATA, event.new_data.physical_hash)
                return _head(path, most)
    return None


def _head(path: Path, most: int) -> pa.Table:
    with pq.ParquetFile(path) as file:
        first = next(file.iter_batches(batch_size=most), None)
        return pa.Table.from_batches([] if first is None else [first], file.schema_arrow)


def _request_input(
    known: Tried, schema: DataSchema, alias: str, path: Path, now: Instant
) -> TransformRequestInput:
    """Describe an input for an engine: it is complete up to the newest event time of the rows."""
    rows, vocab = known.rows, known.state.vocab
    empty = TransformRequestInput(
        dataset_id=known.dataset.id,
        dataset_alias=known.dataset.entry.alias,
        query_alias=alias,
        vocab=vocabulary(vocab),
        data_paths=(),
        schema_file=str(
            write_schema(
                schema,
                path.with_suffix(".schema.parquet"),
                may_change=may_change(known.dataset, known.state),
            )
        ),
        explicit_watermarks=(),
    )
    if rows is None or not rows.num_rows:
        return empty
    known.write_rows(path)
    return structs.replace(
        empty,
        offset_interval=_interval(rows.column(vocab.offset_column)),
        data_paths=(str(path),),
        explicit_watermarks=_complete(rows.column(vocab.event_time_column), now),
    )


def _interval(offsets: pa.ChunkedArray) -> OffsetInterval:
    return OffsetInterval(start=offsets[0].as_py(), end=offsets[-1].as_py())


def _complete(times: pa.ChunkedArray, now: Instant) -> tuple[Watermark, ...]:
    newest = pc.max(times)
    if not newest.is_valid:
        return ()
    millis = pc.cast(newest, pa.timestamp("ms")).value
    return (Watermark(system_time=now, event_time=Instant.from_millis(millis)),)


NO_SAMPLE = "no source declares its columns, so the first rows will tell them: give a sample"
DIFFERENT = "the sources declare different columns, so the first rows will tell them"


def try_columns(root: Tried, context: WorkerContext, folder: Path) -> Tried:
    """Return the root with the columns that its sources declare; each source is tried on a batch
    without rows.

    Raises the same errors as `run_source_check`.
    """
    state = root.state
    found = []
    for number, source in enumerate(_sources(root)):
        place = folder / f"source-{number}"
        place.mkdir(parents=True)
        columns = columns_of(
            source, state.vocab, state.data_schema, context.engines, context.job_progress, place
        )
        found += [] if columns is None else [columns]
    if state.data_schema is not None or not found:
        reason = NO_SAMPLE if state.data_schema is None else None
        return replace(root, schema=state.data_schema, reason=reason)
    if any(each != found[0] for each in found):
        return replace(root, reason=DIFFERENT)
    return replace(root, schema=found[0])


def try_sample(
    root: Tried,
    sample: bytes,
    payload: TrialPayload,
    context: WorkerContext,
    folder: Path,
    *,
    now: Instant,
) -> Tried:
    """Return the root with the rows and the schema that its sample results in.

    Raises:
        NodeError: a batch of these rows would be refused.
    """
    folder.mkdir(parents=True)
    path = folder / "sample"
    path.write_bytes(sample)
    plan = _plan(root, payload, now)
    post = prepare_post(root.dataset, plan, path, context, folder, Extras())
    batch = write_post(root.dataset, root.state, post, context, folder)
    receipt = batch.receipts[0]
    return replace(
        root,
        schema=batch.state.data_schema,
        reason=NO_SAMPLE if batch.state.data_schema is None else None,
        rows=_rows(batch.slices),
        rows_read=receipt.rows_read,
        warnings=receipt.warnings,
    )


def _plan(root: Tried, payload: TrialPayload, now: Instant) -> IngestPlan:
    source: AddPushSource | SetPollingSource | None = root.state.polling_source
    if source is None or payload.source_name is not None:
        source = select_source(root.state, payload.source_name)
    read = for_media_type(source.read, payload.media_type)
    return plan_source(root.state, source, read=read, now=now, source_event_time=now)


def _sources(root: Tried) -> Sequence[AddPushSource | SetPollingSource]:
    polling = root.state.polling_source
    return (*(() if polling is None else (polling,)), *root.state.push_sources.values())


def _rows(slices: Sequence[Written]) -> pa.Table | None:
    tables = [pq.read_table(each.source()) for each in readable(slices) if each.data is not None]
    return pa.concat_tables(tables) if tables else None


def run_trial(
    stores: Stores,
    payload: TrialPayload,
    sample: bytes | None,
    context: WorkerContext,
    *,
    now: Instant,
) -> TrialReceipt:
    """Try each dataset, inputs before the derivatives computed from them.

    Raises:
        NodeError: the error of the first refused dataset; the fact `dataset` names it.
    """
    tried: dict[DatasetId, Tried] = {}
    with work_folder(context.scratch, "trial-") as name:
        for number, described in enumerate(payload.datasets):
            folder = Path(name) / str(number)
            known = _described(described, stores, now)
            body = sample if payload.sample_of == described.alias else None
            try:
                if known.state.kind is DatasetKind.Root and body is not None:
                    found = try_sample(known, body, payload, context, folder, now=now)
                elif known.state.kind is DatasetKind.Root:
                    found = try_columns(known, context, folder)
                elif body is not None:
                    raise BadInput(
                        "NothingToTry", "a derivative computes its rows: a sample is for a root"
                    )
                else:
                    most = payload.input_rows
                    found = try_transform(
                        known, tried, stores, context, folder, input_rows=most, now=now
                    )
            except NodeError as refused:
                refused.facts.setdefault("dataset", described.alias)
                raise
            tried[known.dataset.id] = found
    shown = (found.outcome(payload.shown_rows) for found in tried.values())
    return TrialReceipt(datasets=tuple(shown))


def _described(described: TrialDataset, stores: Stores, now: Instant) -> Tried:
    """Return the dataset with the initial state of its chain."""
    seed: Seed = from_data(described.events[0], Seed)
    events = [from_data(event, MetadataEvent) for event in described.events]
    _, state = author(EMPTY, events, system_time=now)
    alias = DatasetAlias.parse(described.alias)
    entry = DatasetEntry(seed.dataset_id, alias, seed.dataset_kind, Visibility.PRIVATE, now)
    return Tried(dataset=Dataset(entry, stores), state=state)
