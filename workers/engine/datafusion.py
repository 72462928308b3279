"""DataFusion in this process: what the reference node preprocesses with, and transforms row by row.

Names keep their case without quotes. Queries come from whoever owns a dataset, so they are
held to reading their input: one SELECT each, no definitions, no settings, no files (a table
is what was registered, nothing else), no network; memory is bounded, the rest spills.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import (
    DataFrame,
    RuntimeEnvBuilder,
    SessionConfig,
    SessionContext,
    SQLOptions,
    col,
    lit,
)
from datafusion import __version__ as datafusion_version

from protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
)
from protocol.metadata.transforms import Transform

from .datafusion_plan import check_row_by_row, check_words, forget_functions
from .datafusion_rows import CannotFollow, has_order, in_total_order, quoted, with_rows
from .inputs import EngineInput
from .places import blamed_on, said
from .port import (
    INPUT,
    QUERY_SECONDS,
    QUIET,
    InvalidQuery,
    Listener,
    QueryTooSlow,
    check_begins_as_query,
    not_incremental,
    steps_of,
)
from .result import ROW, ROW_BITS
from .transform import ORDER_OF_CHANGES, Computed, Work, execute

MEMORY_BYTES = 512 << 20
OUTPUT_BYTES = 64 << 30
"""Largest result; a query can make rows out of nothing."""
SHOWN_CHARS = 2_000
SETTINGS = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.parquet.schema_force_view_types": "false",
    "datafusion.catalog.information_schema": "false",
    # One partition: rows come in the order of the input.
    "datafusion.execution.target_partitions": "1",
    "datafusion.execution.time_zone": "UTC",
}
_READING = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
_PANIC = "PanicException"


class _Limit:
    """How long a query may run: so many seconds, or until it is stopped."""

    def __init__(self, seconds: float, listener: Listener) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._stopped = threading.Event()
        listener.stops(self._stopped.set)

    def check(self) -> None:
        """Raises `QueryTooSlow`."""
        if self._stopped.is_set() or time.monotonic() > self._end:
            raise QueryTooSlow(self._seconds)


class DataFusionEngine:
    """`Engine` in process; every request gets a context of its own."""

    name = "datafusion"
    version = datafusion_version

    def __init__(
        self,
        *,
        memory_bytes: int = MEMORY_BYTES,
        output_bytes: int = OUTPUT_BYTES,
        seconds: float = QUERY_SECONDS,
    ) -> None:
        self._memory, self._output, self._seconds = memory_bytes, output_bytes, seconds

    def execute_raw_query(
        self, request: RawQueryRequest, listener: Listener = QUIET
    ) -> RawQueryResponse:
        output = Path(request.output_data_path)
        with tempfile.TemporaryDirectory(dir=output.parent) as spill:
            try:
                result = _query(request, self._context(spill))
                count = _write(result, output, self._output, _Limit(self._seconds, listener))
            except InvalidQuery as bad:
                return RawQueryResponseInvalidQuery(message=said(bad))
            except Exception as bad:  # the library has no type of its own for wrong queries
                return RawQueryResponseInvalidQuery(message=str(bad)[:SHOWN_CHARS])
            except BaseException as bad:
                if type(bad).__name__ != _PANIC:
                    raise
                return RawQueryResponseInternalError(message=str(bad)[:SHOWN_CHARS])
        return RawQueryResponseSuccess(num_records=count)

    def execute_transform(
        self, request: TransformRequest, listener: Listener = QUIET
    ) -> TransformResponse:
        try:
            return execute(request, self._compute, listener, carried=False)
        except Exception as bad:  # as above
            return TransformResponseInvalidQuery(message=str(bad)[:SHOWN_CHARS])
        except BaseException as bad:
            if type(bad).__name__ != _PANIC:
                raise
            return TransformResponseInternalError(message=str(bad)[:SHOWN_CHARS])

    def _compute(self, work: Work) -> Computed:
        context = self._context(str(work.scratch))
        forget_functions(context)
        changes = any(item.has_changes for item in work.inputs)
        for at, item in enumerate(work.inputs):
            _register(context, item, at if changes else None)
        if work.transform.temporal_tables:
            raise not_incremental("temporal tables")
        steps = steps_of(work.transform)
        for number, step in enumerate(steps):
            with blamed_on(steps, number):
                check_words(step.query)
        result = _last(work.transform, context)
        with blamed_on(steps):
            check_row_by_row(result)
        schema = pa.schema([_plain(field) for field in result.schema()])
        follows = changes and work.vocab.operation_type_column in schema.names
        limit = _Limit(self._seconds, work.listener)
        return _computed(context, result, schema, limit, follows=follows)

    def _context(self, spill: str) -> SessionContext:
        runtime = RuntimeEnvBuilder().with_disk_manager_specified(spill)
        return SessionContext(SessionConfig(SETTINGS), runtime.with_fair_spill_pool(self._memory))


def _register(context: SessionContext, item: EngineInput, number: int | None) -> None:
    """The input as a view. With a number, its rows have one too, hidden from queries."""
    frame = context.read_parquet(item.path)
    names = [col(quoted(field.name)) for field in item.schema]
    if number is not None:
        row = col(quoted(item.vocab.offset_column)) + lit(number << ROW_BITS)
        frame = frame.with_column(ROW, row)
    context.register_view(quoted(item.alias), frame.select(*names))


def _computed(
    context: SessionContext, result: DataFrame, schema: pa.Schema, limit: _Limit, *, follows: bool
) -> Computed:
    """The rows, in an order made total or with the input rows they come from."""
    ordered = has_order(result)
    splits = False
    if ordered and follows:
        raise InvalidQuery(ORDER_OF_CHANGES)
    if ordered:
        result = in_total_order(context, result)
    elif follows:
        try:
            result = with_rows(context, result)
            schema = schema.append(pa.field(ROW, pa.int64()))
        except CannotFollow:
            splits = True
    batches = _batches(result, schema, limit)
    return Computed(schema=schema, batches=batches, splits_corrections=splits)


def _query(request: RawQueryRequest, context: SessionContext) -> DataFrame:
    inputs = list(request.input_data_paths)
    read = context.read_parquet(inputs[0]) if len(inputs) == 1 else _union(inputs, context)
    context.register_view(INPUT, read)
    return _last(request.transform, context)


def _last(transform: Transform, context: SessionContext) -> DataFrame:
    """The frame of the last step, those before it being views. Raises `InvalidQuery`."""
    steps = steps_of(transform)
    for number, step in enumerate(steps):
        with blamed_on(steps, number):
            result = _planned(step.query, context)
        if number < len(steps) - 1:
            context.register_view(quoted(str(step.alias)), result)
    return result


def _planned(query: str, context: SessionContext) -> DataFrame:
    """Raises `InvalidQuery`: the library has no type of its own for wrong queries."""
    check_begins_as_query(query)
    try:
        return context.sql_with_options(query, _READING)
    except Exception as bad:
        raise InvalidQuery(str(bad)[:SHOWN_CHARS]) from None


def _union(inputs: list[str], context: SessionContext) -> DataFrame:
    """The files one after the other."""
    read = context.read_parquet(inputs[0])
    for path in inputs[1:]:
        read = read.union(context.read_parquet(path))
    return read


def _write(result: DataFrame, output: Path, largest: int, limit: _Limit) -> int:
    schema = pa.schema([_plain(field) for field in result.schema()])
    count = 0
    with pq.ParquetWriter(output, schema, compression="lz4") as writer:
        for batch in _batches(result, schema, limit):
            writer.write_batch(batch)
            count += batch.num_rows
            if output.stat().st_size > largest:
                raise InvalidQuery(f"the query gives more than {largest} bytes")
    return count


def _batches(result: DataFrame, schema: pa.Schema, limit: _Limit) -> Iterator[pa.RecordBatch]:
    # One after the other: a single stream would take what comes first of the parts of a union.
    for part in result.execute_stream_partitioned():
        for given in part:
            limit.check()
            batch = given.to_pyarrow()
            columns = [each.cast(to.type) for each, to in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(field: pa.Field) -> pa.Field:
    """Layouts the engine chose for itself are not those of the dataset."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.field(field.name, plain.get(kind, kind), field.nullable)
