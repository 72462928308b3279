"""Trial of a derivative: its query runs on the first rows of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import structs

from odf_protocol.arrow_schema import from_arrow
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.data import OffsetInterval
from odf_protocol.metadata.engine import (
    TransformRequest,
    TransformRequestInput,
    Watermark,
)
from odf_protocol.metadata.events import AddData, ExecuteTransform, SetTransform
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.dependencies import InputsNotHere
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.values import ObjectKind

from ...engines.port.port import engine_for
from ...plan.transform import NO_SCHEMA
from ..transform.check_source import expected_schema
from ..transform.files import InputFiles
from ..transform.iteration import ask, vocabulary, write_schema
from ..transform.result import checked
from ..transform.run import input_files
from ..work.context import WorkerContext
from .tried import Tried


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
        raise InputsNotHere(missing)
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
        schema_file=str(write_schema(schema, path.with_suffix(".schema.parquet"))),
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
