"""Check a transform before anything is committed: whether it runs, and which columns it returns.

The engine executes it on inputs without rows, so that the check reports what a run would report. If
the derivative has executed another query before, the engine also executes it from that query's
checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyarrow.types import is_time

from odf_protocol.arrow_schema import from_arrow, to_arrow
from odf_protocol.chain.schema_evolution import incompatibility
from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.column_names import same_but_case
from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.engine import TransformRequest
from odf_protocol.metadata.events import SetTransform, SetVocab
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.transforms import SqlQueryStep
from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.errors import ObjectDamaged
from odf_storage.datasets.job_payloads.transform_job import CheckPayload, CheckReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKind

from ...engines.iteration.checkpoint import holds_state
from ...engines.port.dialects import refuse_quoted_columns, with_other_meaning
from ...engines.port.port import SPARK, Engine, InvalidQuery, engine_for, steps_of
from ...plan.transform import NO_SCHEMA
from ...slices.schema import SHOWN_NAMES, IncompatibleSchema
from ..ingest.source import EngineFailed
from ..work.context import WorkerContext
from .chains import input_datasets
from .check_source import expected_schema
from .files import work_folder
from .iteration import ask, empty_input, vocabulary
from .result import as_before, checked
from .run import input_files

NOBODY = DatasetAlias.parse("check/check")
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
        declared: dict[DatasetId, DataSchema] = {}
        for dataset, alias in inputs:
            if dataset.state().schema is not None:
                continue
            place = folder / f"declared-{len(declared)}"
            if (
                columns := expected_schema(
                    dataset.state(), context.engines, context.job_progress, place
                )
            ) is None:
                return CheckReceipt(outcome="unknown", reason=f"{NO_SCHEMA}: {alias}")
            declared[dataset.id] = columns
        data, checkpoint = folder / "data.parquet", folder / "checkpoint"
        vocab = Vocab.of(event)
        request = TransformRequest(
            dataset_id=DatasetId(bytes(32)),
            dataset_alias=NOBODY,
            system_time=now,
            vocab=vocabulary(vocab),
            transform=definition.transform,
            query_inputs=tuple(
                empty_input(*item, folder, declared=declared.get(item[0].id)) for item in inputs
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
        warnings=(*heard.warnings, *after, *hints, *same_but_case(arrow.names)),
        engine=engine.name,
        engine_version=engine.version,
    )


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
