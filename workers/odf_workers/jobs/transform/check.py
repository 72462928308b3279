"""Check a transform before anything is committed: whether it runs, and which columns it returns.

The engine executes it on inputs without rows, so that the check reports what a run would report. If
the derivative has executed another query before, the engine also executes it from that query's
checkpoint.

Check a source before it is committed.

The check finds out whether the source's query runs on the columns it declares, and whether the
resulting rows fit the dataset. The query is executed on a batch without rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyarrow.types import is_time

from odf_protocol.chain.schema_evolution import incompatibility
from odf_protocol.chain.state import ChainState, Vocab
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.columns.arrow_schema import from_arrow, to_arrow
from odf_protocol.columns.column_names import name_remarks
from odf_protocol.errors import NodeError, NotFound
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddPushSource,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SqlQueryStep,
    TransformRequest,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.integrity.healing import ObjectDamaged
from odf_storage.datasets.job_payloads.transform_job import (
    CheckPayload,
    CheckReceipt,
    CheckSourcePayload,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKind

from ...engines.iteration.inputs import holds_state
from ...engines.port.port import (
    SPARK,
    Engine,
    InvalidQuery,
    engine_for,
    refuse_quoted_columns,
    steps_of,
    with_other_meaning,
)
from ...merge.strategies import takes_operations
from ...plan.transform import NO_SCHEMA
from ...readers.formats.read import schema_of
from ...runtime.progress import JobProgress
from ...slices.schema import (
    SHOWN_NAMES,
    Frame,
    IncompatibleSchema,
    check_columns,
    lacking,
    slice_schema,
)
from ...stages.normalize import normalized
from ..ingest.source import EngineFailed, preprocessed
from ..work.context import Engines, WorkerContext
from .chains import input_datasets, may_change
from .iteration import NOBODY, ask, empty_input, vocabulary
from .result import as_before, checked, work_folder
from .run import input_files

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
    lacked = lacking(rows.schema, vocab, known)  # null in each batch, as its receipt will tell
    return from_arrow(slice_schema(pa.schema([*rows.schema, *lacked]), vocab, known))


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


DOES_NOT_FIT = (
    "it cannot go on from what the query before it kept, so the derivative will be paused until "
    "it is reset (keep its metadata only): {}"
)
DROPS_STATE = (
    "the query before it keeps state, which is dropped: what that holds back, such as open "
    "windows, will not be told unless the derivative is reset (keep its metadata only)"
)
OTHER_MEANING = (
    "{} may have another value here, on Spark, than in queries of readers: compare a few rows "
    "(docs/sql-differences.md), or name the engine datafusion"
)

TIMES_OF_DAY = (
    "columns of inputs are times of day, which this engine does not have as such: {}. Their values "
    "may arrive as whole numbers (Int64), or the query is refused: leave these columns out, "
    "or name the engine datafusion"
)


def run_check(
    stores: Stores, payload: CheckPayload, context: WorkerContext, *, now: Instant
) -> CheckReceipt:
    """Check a transform.

    Raises:
        InvalidQuery: facts `line` and `column` if the engine reported them.
        UnsupportedEngine, InputsNotHere, EngineFailed.
        IncompatibleSchema: the dataset has data, and the result does not fit it.
    """
    definition = from_data(payload.definition, SetTransform)
    event = from_data(payload.vocab, SetVocab) if payload.vocab is not None else SetVocab()
    current = from_data(payload.current, DataSchema) if payload.current is not None else None
    inputs = input_datasets(stores, definition)
    engine = engine_for(definition.transform, context.engines.all)
    with work_folder(context.scratch, "check-") as name:
        folder = Path(name)
        declared = _declared(inputs, context, folder)
        for dataset, alias in inputs:
            if dataset.state().schema is None and dataset.id not in declared:
                return CheckReceipt(outcome="unknown", reason=f"{NO_SCHEMA}: {alias}")
        data, checkpoint = folder / "data.parquet", folder / "checkpoint"
        vocab = Vocab.of(event)
        request = TransformRequest(
            dataset_id=DatasetId(bytes(32)),
            dataset_alias=NOBODY,
            system_time=now,
            vocab=vocabulary(vocab),
            transform=definition.transform,
            query_inputs=tuple(
                empty_input(
                    *item,
                    folder,
                    declared=declared.get(item[0].id),
                    may_change=may_change(item[0], item[0].state()),
                )
                for item in inputs
            ),
            next_offset=0,
            new_checkpoint_path=str(checkpoint),
            new_data_path=str(data),
        )
        hints = _hints(request, engine)
        response, heard = ask(engine, request, context.job_progress)
        made = checked(response, data, checkpoint, vocab=vocab, schema=None, next_offset=0)
        after = _after_the_query_before(stores, payload, request, engine, context, folder)
    arrow = made.arrow if current is None else as_before(made.arrow, to_arrow(current))
    schema = from_arrow(arrow)
    if current is not None and (problem := incompatibility(current, schema)) is not None:
        raise IncompatibleSchema(f"the result does not fit the data of the dataset: {problem}")
    return CheckReceipt(
        outcome="valid",
        schema=to_data(schema),
        warnings=(*heard.warnings, *after, *hints, *name_remarks(arrow.names)),
        engine=engine.name,
        engine_version=engine.version,
    )


def _declared(
    inputs: Sequence[tuple[Dataset, str]], context: WorkerContext, folder: Path
) -> dict[DatasetId, DataSchema]:
    """Return the columns that sources declare of inputs that have none yet; stop at the first input
    whose sources declare none."""
    declared: dict[DatasetId, DataSchema] = {}
    for dataset, _ in inputs:
        if (state := dataset.state()).schema is not None:
            continue
        place = folder / f"declared-{len(declared)}"
        columns = expected_schema(state, context.engines, context.job_progress, place)
        if columns is None:
            break
        declared[dataset.id] = columns
    return declared


def _hints(request: TransformRequest, engine: Engine) -> tuple[str, ...]:
    """Return warnings of what Spark takes otherwise than other engines. Raises `InvalidQuery` for
    columns in double quotes."""
    if engine.name != SPARK:
        return ()
    steps = steps_of(request.transform)
    read = [pq.read_schema(item.schema_file) for item in request.query_inputs]
    refuse_quoted_columns(steps, {name for each in read for name in each.names})
    return spark_hints(steps, read)


def spark_hints(steps: Sequence[SqlQueryStep], read: Sequence[pa.Schema]) -> tuple[str, ...]:
    """Return warnings of words that mean something else in queries of readers, and of columns of
    the inputs with types that Spark does not have."""
    words = [f"`{word}`" for word in with_other_meaning(steps)]
    times = {f"`{each.name}`": None for schema in read for each in schema if is_time(each.type)}
    said = ((OTHER_MEANING, words), (TIMES_OF_DAY, list(times)[:SHOWN_NAMES]))
    return tuple(text.format(", ".join(names)) for text, names in said if names)


def _after_the_query_before(
    stores: Stores,
    payload: CheckPayload,
    request: TransformRequest,
    engine: Engine,
    context: WorkerContext,
    folder: Path,
) -> tuple[str, ...]:
    """Return warnings about the state that the derivative has now. Raises `JobLost`."""
    if payload.dataset is None or payload.checkpoint is None:
        return ()
    new = folder / "checkpoint-after"
    try:
        dataset = stores.dataset(DatasetRef.parse(payload.dataset))
        kept = Multihash.parse(payload.checkpoint)
        files = input_files(folder, context.scratch, context.transforms)
        present = files.get(dataset, ObjectKind.CHECKPOINT, kept)
        going_on = replace(
            request,
            prev_checkpoint_path=str(present),
            new_checkpoint_path=str(new),
            new_data_path=str(folder / "data-after.parquet"),
        )
        ask(engine, going_on, context.job_progress)
    except (NotFound, ObjectDamaged):  # rewritten or removed meanwhile, or lost
        return ()
    except (InvalidQuery, EngineFailed) as problem:
        return (DOES_NOT_FIT.format(problem.message),)
    return (DROPS_STATE,) if holds_state(present) and not holds_state(new) else ()
