"""Check a source before it is committed.

The check finds out whether the source's query runs on the columns it declares, and whether the
resulting rows fit the dataset. The query is executed on a batch without rows.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from odf_protocol.arrow_schema import from_arrow, to_arrow
from odf_protocol.chain.state import ChainState, Vocab
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import AddPushSource, SetPollingSource, SetVocab
from odf_protocol.metadata.schema import DataSchema
from odf_storage.datasets.job_payloads.transform_job import CheckReceipt, CheckSourcePayload

from ...engines.port.dialects import refuse_quoted_columns
from ...engines.port.port import SPARK, engine_for, steps_of
from ...merge.table import takes_operations
from ...readers.read import schema_of
from ...runtime.progress import JobProgress
from ...slices.columns import check_columns
from ...slices.frame import Frame
from ...slices.schema import slice_schema
from ...stages.normalize import normalized
from ..ingest.source import preprocessed
from ..work.context import Engines, WorkerContext
from .files import work_folder

Source = AddPushSource | SetPollingSource
NO_COLUMNS = "the source declares no schema, so its query is first tried by the first batch"


def run_source_check(payload: CheckSourcePayload, context: WorkerContext) -> CheckReceipt:
    """Check a source.

    Raises:
        InvalidQuery: facts `line` and `column` if the engine reported them.
        UnsupportedEngine, EngineFailed.
        BadInputSchema, IncompatibleSchema: the resulting rows do not fit the dataset.
        CannotMerge: the merge strategy names columns that the result lacks.
    """
    event = _source(payload)
    vocab = Vocab.of(from_data(payload.vocab, SetVocab) if payload.vocab else SetVocab())
    current = from_data(payload.current, DataSchema) if payload.current is not None else None
    engine = None
    if event.preprocess is not None:
        engine = engine_for(event.preprocess, context.engines.all)
        if engine.name == SPARK and (declared := schema_of(event.read)) is not None:
            refuse_quoted_columns(steps_of(event.preprocess), declared.names)
    with work_folder(context.scratch, "check-") as name:
        schema = columns_of(
            event, vocab, current, context.engines, context.job_progress, Path(name)
        )
    if schema is None:
        return CheckReceipt(outcome="unknown", reason=NO_COLUMNS)
    return CheckReceipt(
        outcome="valid",
        schema=to_data(schema),
        engine=None if engine is None else engine.name,
        engine_version=None if engine is None else engine.version,
    )


def _source(payload: CheckSourcePayload) -> Source:
    if payload.source.get("kind") == "SetPollingSource":
        polling: SetPollingSource = from_data(payload.source, SetPollingSource)
        return polling
    push: AddPushSource = from_data(payload.source, AddPushSource)
    return push


def columns_of(
    source: Source,
    vocab: Vocab,
    current: DataSchema | None,
    engines: Engines,
    job_progress: JobProgress,
    folder: Path,
) -> DataSchema | None:
    """Return the schema of slices written from batches of a source; None if it declares no schema.

    Raises the same errors as `run_source_check`.
    """
    declared = schema_of(source.read)
    if declared is None:
        return None
    frame = Frame.empty(declared)
    if source.preprocess is not None:
        made = preprocessed(frame, source.preprocess, engines, job_progress, folder)
        frame = Frame.empty(pq.read_schema(made))
    rows = normalized(
        frame,
        vocab=vocab,
        coerces=source.preprocess is None and source.read.schema is None,
        takes_operations=takes_operations(source.merge),
    )
    key = getattr(source.merge, "primary_key", None)
    if key is not None:
        check_columns(rows.schema.names, key, "primary key")
    if (compared := getattr(source.merge, "compare_columns", None)) is not None:
        check_columns(rows.schema.names, compared, "compared")
    known = None if current is None else to_arrow(current)
    return from_arrow(slice_schema(rows.schema, vocab, known))


def expected_schema(
    state: ChainState, engines: Engines, job_progress: JobProgress, folder: Path
) -> DataSchema | None:
    """Return the schema that a root without rows will have, according to its sources; None if they
    declare none, or different ones, or cannot be read."""
    found = []
    polling = () if state.polling_source is None else (state.polling_source,)
    for number, source in enumerate((*polling, *state.push_sources.values())):
        place = folder / f"source-{number}"
        place.mkdir(parents=True)
        try:
            found.append(columns_of(source, state.vocab, None, engines, job_progress, place))
        except NodeError:  # the first batch will report the error
            return None
    return found[0] if found and all(each == found[0] for each in found) else None
