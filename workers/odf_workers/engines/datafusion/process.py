"""The process for one query on DataFusion: confine itself, then plan, check and compute the query.

It knows the question and the files that it names, and nothing else of the node. Names without
quotes keep their case. Each step of a query is one SELECT; it may not define or set anything, and
reads registered tables only.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
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

from odf_protocol.columns.stored_values import has_floats
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import SqlQueryStep
from odf_protocol.sql_text import quoted_name
from odf_protocol.typed import decode_json

from ...confine import CannotConfine, Rules, confine
from ..port.port import (
    ORDER_OF_CHANGES,
    ROW,
    ROW_BITS,
    InvalidQuery,
    blamed_on,
    check_begins_as_query,
)
from .child import BATCH, END, FRAME, HEAD, End, EngineQuestion, ResultHead, TableSource, encoded
from .meaning import as_sql_means
from .plan import MOMENTS, check_words, forget_functions, judge
from .plan_messages import (
    CannotFollow,
    CannotRebuild,
    has_order,
    in_total_order,
    with_rows,
)

KEEPS_LOG = False
"""Children do not write to the log of who asked for them: what an engine says may have rows in
it."""
SHOWN_CHARS = 2_000
NO_BOUNDS = {
    # A column with equal bounds and no nulls would be taken for a constant, though it has NaN.
    "datafusion.execution.collect_statistics": "false",
    # Bounds of pages are used even where those of row groups are not.
    "datafusion.execution.parquet.enable_page_index": "false",
}
"""Settings by which the engine does not trust bounds in footers, which leave NaN out. Row groups
are still excluded by them, except where `parquet_pruning` is off: for all files with floats. Where
no file has floats, statistics are collected."""
DEEPEST_PLAN = 200
"""Parts of a plan below each other, from the result to a table. The engine's own functions call
themselves for each part when they write a plan down: with some five hundred parts the stack of the
process ends, and the process with it, so this is no setting."""
TOO_DEEP = (
    "more than {} parts of the query are nested in each other, as each UNION in a row nests what "
    "is before it, and each JOIN and step of WITH: put brackets around some dozens of a long "
    "UNION, write single rows as VALUES, or ask in several queries"
)
FINER = frozenset({"us", "ns"})
"""Units of times that slices keep in milliseconds."""
SETTINGS = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.parquet.schema_force_view_types": "false",
    "datafusion.catalog.information_schema": "false",
    # With one partition, rows stay in the order of the input.
    "datafusion.execution.target_partitions": "1",
    "datafusion.execution.time_zone": "UTC",
    **NO_BOUNDS,
}
_NO_ZONE = {name: value for name, value in SETTINGS.items() if "time_zone" not in name}
"""Settings for raw queries, which ingest. With a time zone set, `to_timestamp(text, pattern)`
declares times with that zone but returns times without one, which fails. Ingested times without a
zone are in UTC anyway; derivatives keep the zone, so that their types stay the same."""
_ZONE_LOST = re.compile(r'expected Timestamp\(\w+, "UTC"\) but found Timestamp\(\w+\)')
_UNKNOWN_FUNCTION = re.compile(r"Invalid function '(\w+)'")
TEXTS_AS_TIMES = (
    "this engine announces times in UTC when it reads them from texts, and makes them without a "
    "zone: write to_timestamp_millis(to_timestamp(text, pattern)), or for texts of RFC 3339 "
    "cast(text as timestamp with time zone)"
)
_READING = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
OURS = (AttributeError, AssertionError, ImportError, KeyError, NameError, TypeError)
"""Errors that are faults of this program, not of a query."""
_MAY_DIFFER = re.compile(r" [-+*] |\bsum\(|Float")
"""Parts of a plan, as a text, that `as_sql_means` might have to rewrite."""
_SIZE = re.compile(r"(?m)^(VmSize|VmData):\s+(\d+) kB$")


def prepare() -> None:
    """Have Arrow look up its functions before the forks, so that no process has to repeat it."""
    batch = pa.RecordBatch.from_arrays([pa.array([1]).cast(pa.int32())], names=["n"])
    batch.serialize()


def answer(connection: socket.socket) -> None:
    """Read a question from the connection, and answer it."""
    question = decode_json(_received(connection), EngineQuestion)

    def say(kind: bytes, content: bytes) -> None:
        connection.sendall(FRAME.pack(kind, len(content)))
        connection.sendall(content)

    say(END, encoded(_answered(question, say)))


def _answered(question: EngineQuestion, say: Callable[[bytes, bytes], None]) -> End:
    try:
        confine(beside_what_is_there(Rules.of_text(question.rules)))
        head, computed = _computed(question)
        say(HEAD, encoded(head))
        for batch in computed:
            say(BATCH, batch.serialize().to_pybytes())
    except BadInput as bad:
        return End(refused=bad.message, facts=dict(bad.facts))
    except CannotConfine as bad:
        return End(failed=str(bad))
    except MemoryError:
        return End(starved=True)
    except OURS as bad:
        return End(failed=f"{type(bad).__name__}: {bad}"[:SHOWN_CHARS])
    except Exception as bad:  # the library has no specific error for wrong queries
        return End(refused=_with_way_out(str(bad)[:SHOWN_CHARS]))
    except BaseException as bad:  # a panic of the library
        return End(failed=str(bad)[:SHOWN_CHARS])
    return End()


def _with_way_out(reason: str) -> str:
    """Return the reason; add another way to write the query if the library cannot compute it."""
    return f"{reason}; {TEXTS_AS_TIMES}" if _ZONE_LOST.search(reason) else reason


def _received(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        _, length = FRAME.unpack(stream.read(FRAME.size))
        return stream.read(length)


def beside_what_is_there(rules: Rules) -> Rules:
    """Return the rules with memory limits for the query alone: add what this process has now."""
    found = {name: int(kb) << 10 for name, kb in _SIZE.findall(_status())}
    return replace(
        rules,
        address_space=(rules.address_space or 0) + found["VmSize"],
        data=(rules.data or 0) + found["VmData"],
    )


def _status() -> str:
    return Path("/proc/self/status").read_text()


def _computed(question: EngineQuestion) -> tuple[ResultHead, Iterator[pa.RecordBatch]]:
    context = _context(question)
    steps = [SqlQueryStep(query=step.query, alias=step.alias) for step in question.steps]
    result = meant(context, _last(steps, context, iterates=question.iterates))
    schema = pa.schema([in_millis(plain(field)) for field in result.schema()])
    splits = False
    if question.iterates:
        follows = question.operation is not None and question.operation in schema.names
        ordered = has_order(result)
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
    head = ResultHead(schema=schema.serialize().to_pybytes(), splits=splits)
    return head, batches(result, schema)


def _context(question: EngineQuestion) -> SessionContext:
    runtime = RuntimeEnvBuilder().with_disk_manager_specified(question.spill)
    settings = SETTINGS if question.iterates else _NO_ZONE
    if not _has_floats(question):  # by the number of rows, joins keep the smaller side in memory
        settings = {**settings, "datafusion.execution.collect_statistics": "true"}
    context = SessionContext(SessionConfig(settings), runtime.with_fair_spill_pool(question.pool))
    forget_functions(context, iterates=question.iterates)
    for source in question.sources:
        context.register_view(quoted_name(source.name), _read(context, source))
    return context


def _has_floats(question: EngineQuestion) -> bool:
    paths = (path for source in question.sources for path in source.paths)
    return any(has_floats(pq.read_schema(path)) for path in paths)


def _read(context: SessionContext, source: TableSource) -> DataFrame:
    """Return a frame over the files, one after the other. With a source number, the rows also have
    the column `ROW`, which is not among the columns of the view."""
    frames = [context.read_parquet(path, parquet_pruning=False) for path in source.paths]
    frame = reduce(DataFrame.union, frames)
    if source.number is not None:
        row = col(quoted_name(source.offset)) + lit(source.number << ROW_BITS)
        frame = frame.with_column(ROW, row)
    if source.columns is None:
        return frame
    return frame.select(*[col(quoted_name(name)) for name in source.columns])


def _last(steps: list[SqlQueryStep], context: SessionContext, *, iterates: bool) -> DataFrame:
    """Return the frame of the last step; earlier steps become views. Raise `InvalidQuery`."""
    for number, step in enumerate(steps):
        with blamed_on(steps, number):
            check_words(step.query)
            result = planned(step.query, context)
            if not iterates:
                judge(result, iterates=False)
        if number < len(steps) - 1:
            context.register_view(quoted_name(str(step.alias)), result)
    if iterates:  # the last plan contains all steps, so the error may be in any of them
        with blamed_on(steps):
            judge(result, iterates=True)
    return result


def planned(
    query: str, context: SessionContext, values: Mapping[str, pa.Scalar] | None = None
) -> DataFrame:
    """Plan one SELECT, with values in place of its parameters. Raise `InvalidQuery` for any error
    of the library, which has no specific one for wrong queries."""
    check_begins_as_query(query)
    try:
        return context.sql_with_options(query, _READING, param_values=values)
    except MemoryError:
        raise
    except Exception as bad:
        raise InvalidQuery(_without_moments(str(bad)[:SHOWN_CHARS])) from None


def _without_moments(reason: str) -> str:
    """Return the reason; of a function that is unknown because its value depends on the moment, say
    so in place of a name that is like it."""
    found = _UNKNOWN_FUNCTION.search(reason)
    if found is None or found[1].lower() not in MOMENTS:
        return reason
    return f"{found[0]}: the result has to be the same whenever and wherever it is computed"


def meant(context: SessionContext, result: DataFrame) -> DataFrame:
    """Return the frame with the meaning of SQL. Raise `InvalidQuery` if its plan cannot be rebuilt
    and has parts that may mean something else, or if it is too deep."""
    check_depth(result)
    try:
        return as_sql_means(context, result)
    except CannotRebuild as bad:
        if "only supports literal" in str(bad):
            raise InvalidQuery(
                "LIMIT and OFFSET take whole numbers: no parameters and no expressions"
            ) from None
        if _MAY_DIFFER.search(result.logical_plan().display_indent_schema()) is None:
            return result
        raise InvalidQuery(
            "beside a table function no + - * and sum() of numbers and no floats are possible, "
            f"since this node cannot check such a plan for overflow: {str(bad)[:200]}"
        ) from None
    except RecursionError:
        raise InvalidQuery(TOO_DEEP.format(DEEPEST_PLAN)) from None


def check_depth(result: DataFrame) -> None:
    """Raise `InvalidQuery` for a plan that is too deep to be written down."""
    parts = [result.logical_plan()]
    for _ in range(DEEPEST_PLAN):
        parts = [below for part in parts for below in part.inputs()]
        if not parts:
            return
    raise InvalidQuery(TOO_DEEP.format(DEEPEST_PLAN))


def batches(result: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Read partitions in turn: a single stream would mix the parts of a union as they arrive.
    for part in result.execute_stream_partitioned():
        for given in part:
            batch = given.to_pyarrow()
            columns = [_cast(each, to.type) for each, to in zip(batch.columns, schema, strict=True)]
            for column in columns:
                if pa.types.is_decimal(column.type):  # the engine may have added a digit too many
                    column.validate(full=True)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    is_finer = pa.types.is_timestamp(kind) and column.type.unit in FINER
    return column.cast(kind, safe=not is_finer)


def in_millis(field: pa.Field) -> pa.Field:
    """Return the field with times finer than a millisecond in milliseconds: the library cuts them
    to zero, also before 1970, and so do peers that run it; Spark gives the millisecond before."""
    kind = field.type
    if not pa.types.is_timestamp(kind) or kind.unit not in FINER:
        return field
    return field.with_type(pa.timestamp("ms", kind.tz))


def plain(field: pa.Field) -> pa.Field:
    """Return the field without layouts (dictionary, view) that the engine chose internally."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.field(field.name, plain.get(kind, kind), field.nullable)
