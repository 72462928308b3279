"""One iteration on an engine: make inputs local, execute the query, check its output.

This module commits nothing, so that computing, replaying and checking can all use it.

The checkpoints from which a verification lets an execution begin: only those of this node.

Another node may commit a checkpoint that no execution made, and rows computed from it. Therefore a
replay begins from a checkpoint that an engine here committed, or from the one that the replay of
the execution before it made.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetVocabulary,
    ExecuteTransform,
    HashedBlock,
    SetDataSchema,
    TransformRequest,
    TransformRequestInput,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
    Watermark,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import EngineNote
from odf_storage.stores.ports.values import ObjectKind

from ...engines.iteration.inputs import MAY_CHANGE
from ...engines.port.job_listener import Heard
from ...engines.port.port import Engine, InvalidQuery, place_of
from ...engines.port.refusals import in_plain_words
from ...plan.transform import InputPlan, TransformPlan
from ...runtime.progress import JobProgress
from ...slices.schema import IncompatibleSchema
from ...slices.write import parquet_settings
from ..ingest.source import EngineFailed
from .chains import backwards
from .result import InputFiles, MadeResult, checked


class SchemaNotKnown(BadInput):
    """An input has no schema as of the last block that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """Result of an iteration. Warnings are for the author of the query."""

    made: MadeResult
    response: TransformResponseSuccess
    warnings: tuple[str, ...]
    late_rows: int = 0
    """Rows and changes of inputs that came too late."""


def execute(
    target: Dataset,
    plan: TransformPlan,
    inputs: Sequence[Dataset],
    engine: Engine,
    files: InputFiles,
    folder: Path,
    job_progress: JobProgress,
    *,
    checkpoint: Path | None,
) -> Executed:
    """Run a plan on an engine, from a checkpoint; all its output is written into `folder`. A query
    that needs columns which an input got later finds them empty
    (`with_later_columns`).

    Raises:
        JobLost: the job was cancelled, or is another worker's now.
        InvalidQuery: with the facts of the error's position.
        EngineFailed: the engine failed for an internal reason.
        IncompatibleSchema, UnexpectedNulls: the rows do not fit the dataset.
        ObjectNotFound: a slice of an input is missing.
    """
    job_progress.phase("execute")

    def once(plan: TransformPlan, folder: Path) -> Executed:
        request = request_of(target, plan, inputs, files, folder, checkpoint)
        return answered(engine, request, plan, job_progress)

    try:
        return once(plan, folder)
    except (InvalidQuery, IncompatibleSchema) as refused:
        try:
            wider = with_later_columns(target, plan, inputs, engine, files, folder, job_progress)
        except EngineFailed:  # an engine of others, which takes no input without rows
            raise refused from None
        if wider is plan:
            raise
        return once(wider, folder / "again")


def answered(
    engine: Engine, request: TransformRequest, plan: TransformPlan, job_progress: JobProgress
) -> Executed:
    """Return what the engine makes of a request for the plan. Raises as `execute`."""
    response, heard = ask(engine, request, job_progress)
    data, new_checkpoint = Path(request.new_data_path), Path(request.new_checkpoint_path)
    made = checked(
        response,
        data,
        new_checkpoint,
        vocab=plan.vocab,
        schema=plan.schema,
        next_offset=plan.next_offset,
    )
    return Executed(
        made=made,
        response=response,
        warnings=tuple(heard.warnings),
        late_rows=heard.late_rows,
    )


def with_later_columns(
    target: Dataset,
    plan: TransformPlan,
    inputs: Sequence[Dataset],
    engine: Engine,
    files: InputFiles,
    folder: Path,
    job_progress: JobProgress,
) -> TransformPlan:
    """Return the plan with the first columns of its inputs on which the query runs: those of the
    rows that are read, or with columns that the inputs got later, one change after the other.

    The same plan comes back if the query runs on the columns of the rows. Which columns are taken
    depends on the chains alone, and changes that follow later do not matter, so that a replay
    takes the same. The query is tried on inputs without rows.

    Raises:
        InvalidQuery, IncompatibleSchema: the query does not run on the newest columns either.
    """
    wider = list(_with_later_schemas(plan, inputs))
    if not wider:
        return plan
    refused: InvalidQuery | IncompatibleSchema
    for number, one in enumerate([plan, *wider]):
        tried, place = without_rows(one), folder / f"columns-{number}"
        request = request_of(target, tried, inputs, files, place, None)
        try:
            answered(engine, request, tried, job_progress)
            return one
        except (InvalidQuery, IncompatibleSchema) as problem:
            refused = problem
    raise refused


def without_rows(plan: TransformPlan) -> TransformPlan:
    """Return the plan on inputs without rows and without watermarks."""
    inputs = tuple(
        replaced(item, new_offset=None, slices=(), watermarks=(), remembered=None)
        for item in plan.inputs
    )
    return replaced(plan, inputs=inputs, prev_checkpoint=None)


def _with_later_schemas(plan: TransformPlan, inputs: Sequence[Dataset]) -> Iterator[TransformPlan]:
    """Yield the plan after each later change of an input's columns, in the order of time."""
    changes = list[tuple[Instant, int, Multihash]]()
    for at, (dataset, item) in enumerate(zip(inputs, plan.inputs, strict=True)):
        if dataset.state(item.as_of).data_schema == dataset.state().data_schema:
            continue
        for page in dataset.pages(after=item.as_of):
            changes += [
                (block.block.system_time, at, block.hash)
                for block in page
                if isinstance(block.event, SetDataSchema)
            ]
    for _, at, block in sorted(changes, key=lambda change: change[:2]):
        items = list(plan.inputs)
        items[at] = replaced(items[at], as_of=block)
        plan = replaced(plan, inputs=tuple(items))
        yield plan


def request_of(
    target: Dataset,
    plan: TransformPlan,
    inputs: Sequence[Dataset],
    files: InputFiles,
    folder: Path,
    checkpoint: Path | None,
) -> TransformRequest:
    """Return the request of an iteration, with its inputs as files; `folder` is made, for its
    output. Raises `SchemaNotKnown`, `ObjectNotFound`."""
    folder.mkdir(parents=True)
    return TransformRequest(
        dataset_id=target.id,
        dataset_alias=target.entry.alias,
        system_time=plan.system_time,
        vocab=vocabulary(plan.vocab),
        transform=plan.transform,
        query_inputs=tuple(
            _request_input(dataset, item, files, folder)
            for dataset, item in zip(inputs, plan.inputs, strict=True)
        ),
        next_offset=plan.next_offset,
        prev_checkpoint_path=None if checkpoint is None else str(checkpoint),
        new_checkpoint_path=str(folder / "checkpoint"),
        new_data_path=str(folder / "data.parquet"),
    )


def checkpoint_file(target: Dataset, plan: TransformPlan, files: InputFiles) -> Path | None:
    """Return the file of the recorded checkpoint, if there is one. Raises `ObjectNotFound`."""
    if plan.prev_checkpoint is None:
        return None
    return files.get(target, ObjectKind.CHECKPOINT, plan.prev_checkpoint)


def ask(
    engine: Engine, request: TransformRequest, job_progress: JobProgress
) -> tuple[TransformResponseSuccess, Heard]:
    """Return the response of an engine. Raises `InvalidQuery`, `EngineFailed`, `JobLost`."""
    heard = Heard(job_progress)
    response = engine.execute_transform(request, heard)
    job_progress.check()  # a stopped engine reports that it took too long
    match response:
        case TransformResponseSuccess():
            return response, heard
        case TransformResponseInvalidQuery(message=message):
            raise _refused(message, request)
        case TransformResponseInternalError(message=message):
            raise EngineFailed(f"the engine failed: {message}")
        case _:
            raise EngineFailed("the engine ended without an answer")


NOBODY = DatasetAlias.parse("check/check")
"""In place of the name of a derivative that is not there yet."""


def _refused(message: str, request: TransformRequest) -> InvalidQuery:
    """Return the error for an engine's refusal of a request, with the facts of its position."""
    tables = {}
    for item in request.query_inputs:
        try:
            tables[item.query_alias] = pq.read_schema(item.schema_file).names
        except (OSError, pa.ArrowException):
            tables[item.query_alias] = []
    alias = request.dataset_alias
    whose = "the query" if alias == NOBODY else f"the query of {alias}"
    told = in_plain_words(message, whose, tables)
    if told == message and (rows := _rows_read(request)):  # it may be one of their values
        told = f"{message} ({whose} read {rows})"
    error = InvalidQuery(told, **place_of(message))
    error.engine_words = message
    return error


def _rows_read(request: TransformRequest) -> str:
    """Return which rows a request has the engine read, by their offsets; empty if it has none."""
    return ", ".join(
        f"offsets {rows.start} to {rows.end} of `{item.query_alias}`"
        for item in request.query_inputs
        if (rows := item.offset_interval) is not None
    )


def vocabulary(vocab: Vocab) -> DatasetVocabulary:
    """Return the vocabulary with all names explicit."""
    offset, operation, system, event = vocab.columns
    return DatasetVocabulary(
        offset_column=offset,
        operation_type_column=operation,
        system_time_column=system,
        event_time_column=event,
    )


def write_schema(schema: DataSchema, path: Path, *, may_change: bool = False) -> Path:
    """Write a Parquet file without rows, from which an engine reads the columns of an input, and
    whether its rows may be taken back."""
    arrow = to_arrow(schema)
    with pq.ParquetWriter(path, arrow, **parquet_settings(arrow)) as writer:
        writer.write_table(arrow.empty_table())
        if may_change:
            writer.add_key_value_metadata({MAY_CHANGE: "true"})
    return path


def empty_input(
    dataset: Dataset,
    alias: str,
    folder: Path,
    *,
    as_of: Multihash | None = None,
    declared: DataSchema | None = None,
    may_change: bool = False,
) -> TransformRequestInput:
    """Return an input without rows, with its columns as of a block, by default the head. If it has
    no schema yet, its columns are those `declared`."""
    state = dataset.state(as_of)
    if (schema := state.data_schema or declared) is None:
        raise SchemaNotKnown(f"input {alias!r} has no schema as of block {state.head}")
    return TransformRequestInput(
        dataset_id=dataset.id,
        dataset_alias=dataset.entry.alias,
        query_alias=alias,
        vocab=vocabulary(state.vocab),
        data_paths=(),
        schema_file=str(
            write_schema(
                schema,
                folder / f"schema-{dataset.id.multibase}.parquet",
                may_change=may_change,
            )
        ),
        explicit_watermarks=(),
    )


def _request_input(
    dataset: Dataset, item: InputPlan, files: InputFiles, folder: Path
) -> TransformRequestInput:
    interval = item.offset_interval
    slices = item.slices if interval is not None else ()
    return replace(
        empty_input(dataset, item.alias, folder, as_of=item.as_of),
        offset_interval=interval,
        data_paths=tuple(
            str(files.get(dataset, ObjectKind.DATA, part.physical_hash)) for part in slices
        ),
        explicit_watermarks=_said(item),
    )


def _said(item: InputPlan) -> tuple[Watermark, ...]:
    """Return the explicit watermarks of an input; without new ones, its last watermark, so that
    engines need not remember it."""
    if item.watermarks or item.remembered is None:
        return item.watermarks
    return (item.remembered,)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The checkpoint from which an execution begins; None if there is none. It is not known if only
    another node has made it."""

    checkpoint: Path | None = None
    is_known: bool = True


class OwnCheckpoints:
    """The checkpoints of this node, in a verification that replays executions oldest first. The
    newest one of a replay is kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "checkpoint"
        self._made_by: Multihash | None = None

    def beginning(
        self,
        dataset: Dataset,
        block: HashedBlock,
        plan: TransformPlan,
        note: EngineNote,
        files: InputFiles,
    ) -> Beginning:
        """Return the beginning of the execution in the block. Raises `ObjectNotFound`."""
        before = _execution_before(dataset, block)
        if before is None:
            return Beginning()
        if note.at(before.sequence_number) is not None:
            return Beginning(checkpoint_file(dataset, plan, files))
        if before.hash == self._made_by:
            return Beginning(self._kept if self._kept.exists() else None)
        return Beginning(is_known=False)

    def missing(self, dataset: Dataset, block: HashedBlock, note: EngineNote) -> list[Multihash]:
        """Return the executions, oldest first, whose replay in this order makes the checkpoint from
        which the execution in the block begins."""
        found = []
        for one in backwards(dataset, block.prev):
            if isinstance(one.event, ExecuteTransform):
                if note.at(one.sequence_number) is not None or one.hash == self._made_by:
                    break
                found.append(one.hash)
        return found[::-1]

    def keep(self, block: HashedBlock, made: MadeResult) -> None:
        """Keep the checkpoint that the replay of a block made."""
        self._made_by = block.hash
        self._kept.unlink(missing_ok=True)
        if made.checkpoint is not None:
            shutil.copyfile(made.checkpoint_path, self._kept)


def _execution_before(dataset: Dataset, block: HashedBlock) -> HashedBlock | None:
    earlier = backwards(dataset, block.prev)
    return next((one for one in earlier if isinstance(one.event, ExecuteTransform)), None)
