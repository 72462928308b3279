"""The process that answers one query of a reader: confine, then plan, check and compute.

It receives the question and the folders with the slices of its datasets. A query is one SELECT in
the dialect of the engine; its tables are only the datasets of the question.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, col

from odf_protocol.codec.manifests import to_data
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import SqlQueryStep
from odf_protocol.sql_text import quoted_name
from odf_protocol.typed import decode_json
from odf_storage.datasets.query.messages import (
    END,
    FRAME,
    INDEX,
    LINKED,
    PIECE,
    PIECE_BYTES,
    PLANNED,
    QUESTION,
    Form,
    Planned,
    QueryEnd,
    QueryLimits,
    QueryTable,
    Question,
    Slice,
    WantedIndex,
    Why,
    encoded,
    frame,
    with_own_names,
)

from ..confine import Rules, confine, program_reads
from ..engines.datafusion import process as engine
from ..engines.datafusion.plan import check_words, forget_functions, judge
from ..engines.port.port import (
    ONLY_QUERIES,
    InvalidQuery,
    Where,
    line_and_column,
    located,
    misspelt_keyword,
    told,
)
from ..engines.port.query_size import QuerySize, check_size, columns_of
from . import tables as encode
from .conditions import OpenIndex, needed
from .offsets import number_of_rows
from .parameters import bound
from .tables import base_names, register, view_names

KEEPS_LOG = engine.KEEPS_LOG
MAPPED_BYTES = 4 << 30
"""Bytes that a process may map in addition to its writable memory: code, files, reserved
addresses."""
DEFAULT_CATALOG = "kamu"
"""Catalogue and schema of tables; the reference node has the same names in its errors."""
_INSTEAD = (
    (
        re.compile(rf"\A(?:{re.escape(ONLY_QUERIES)}\Z|.*information_schema)"),
        'GET /datasets lists the datasets, and select * from "name" limit 0 has the columns of one',
    ),
    (
        re.compile(r"table function 'to_table' not found"),
        "to_table takes one name, and a query with /* */, $ or E'…' has none: write \"name@state\"",
    ),
    (
        re.compile(r"table '(?!kamu\.kamu\.)[^']*' not found"),
        'write "account/name" in double quotes for the dataset of an account',
    ),
    (
        re.compile(r"\A(?:Invalid function '(?:json|get_json)|.*Operator (?:->|->>|#>|#>>) )"),
        "JSON in texts has no functions here: declare columns for its values in the source",
    ),
)
"""What to write instead, by the beginning of the engine's message."""
SETTINGS = {
    "datafusion.catalog.default_catalog": DEFAULT_CATALOG,
    "datafusion.catalog.default_schema": DEFAULT_CATALOG,
    "datafusion.catalog.information_schema": "false",
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.parquet.schema_force_view_types": "false",
    "datafusion.execution.time_zone": "UTC",
    "datafusion.execution.meta_fetch_concurrency": "1",
    **engine.NO_BOUNDS,
}
"""Footers are read one after another: reading 32 at once is not faster, and takes four times the
memory."""
_OUT_OF_POOL = "Resources exhausted"
_KIND = re.compile(
    r"^(?:(?:DataFusion error|Error during planning|Schema error|External error|Execution error"
    r"|Arrow error|Cast error|Compute error|Parser error|Invalid argument error): "
    r"|(?:Optimizer rule '\w+' failed|\w+)\s+caused by\s+)+"
)
_PARSER = re.compile(r'^SQL error: \w+\("(?P<said>.*)"\)$', re.DOTALL)
_ADDS_FLOATS = re.compile(
    r"(?m)^ *(?:Aggregate|WindowAggr): .*\b"
    r"(?:avg|corr|covar\w*|mean|regr_\w+|stddev\w*|sum|var\w*)\(.*:Float"
)
"""Matches a plan, as a text with types, in which floats are added."""
_ADVICE = re.compile(r" Column names are case sensitive\. .*? configuration\.", re.DOTALL)
"""Advice of the engine to change a setting, which no reader can."""
_SIGNATURE = re.compile(r"Internal error: .*?(?=No function matches)", re.DOTALL)
"""What the engine says of itself before it names the types of a function."""
_ENDS = "found: EOF"
_NO_FIELD = re.compile(r"No field named (?P<name>\S+)\.(?= )")
_reads = cache(program_reads)


class AnswerTooLong(Exception):
    """The answer exceeds its limit of bytes."""


def prepare() -> None:
    """Do once the work that every process would otherwise repeat for its query: rehearse one, up to
    where the engine would start threads, which no fork inherits."""
    engine.prepare()
    _reads()
    question = decode_json(encoded(_REHEARSED), Question)
    _context(question)
    _checked(question)
    schema = columns_of(question.tables[0])
    encoded(Planned(schema=to_data(from_arrow(schema)), used={}))
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array(["a"])], names=["n", "text"])
    for form in Form:
        list(encode.encoded(batch.schema, iter([batch]), form, canonical=True))


_REHEARSED = Question(
    query="select 1",
    tables=[
        QueryTable(
            names={},
            schema=to_data(from_arrow(pa.schema([("offset", pa.int64())]))),
            offset="offset",
            operation="op",
            system_time="system_time",
            key=[],
            slices=[Slice(0, 0)],
            folder="",
        )
    ],
    skip=0,
    limit=0,
    form=Form.AOS,
    repeatable=True,
    scratch=tempfile.gettempdir(),
    links="",
    limits=QueryLimits(**dict.fromkeys(QueryLimits.__struct_fields__, 1 << 20)),
    confinement="off",
)
"""A question that no process answers."""


def answer(connection: socket.socket) -> None:
    """Read a question, and answer it."""
    with connection.makefile("rb") as stream:

        def hear(kind: bytes) -> bytes:
            found, length = FRAME.unpack(stream.read(FRAME.size))
            if found != kind:
                raise ValueError(f"a frame of kind {found!r} is none that comes here")
            return stream.read(length)

        def open_index(table: int, key: str) -> BinaryIO | None:
            """Request a file of an index. No other message is in transit, so the stream's buffer is
            empty."""
            connection.sendall(frame(INDEX, encoded(WantedIndex(table, key))))
            raw, files, *_ = socket.recv_fds(connection, FRAME.size, 1)
            if raw != frame(INDEX):
                raise ValueError("a file was asked for, and something else came")
            return os.fdopen(files[0], "rb") if files else None

        question = decode_json(hear(QUESTION), Question)
        end = _answered(question, connection.sendall, hear, open_index)
        connection.sendall(frame(END, encoded(end)))


def _answered(
    question: Question,
    say: Callable[[bytes], None],
    hear: Callable[[bytes], bytes],
    open_index: OpenIndex,
) -> QueryEnd:
    def refused(message: str) -> QueryEnd:
        columns = [n for table in question.tables for n in columns_of(table).names]
        return refusal(question.query, message, columns)

    try:
        confine(_rules(question))
        for piece in _computed(question, say, hear, open_index):
            for at in range(0, len(piece), PIECE_BYTES):
                say(frame(PIECE, piece[at : at + PIECE_BYTES]))
    except BadInput as bad:
        return refused(bad.message)
    except AnswerTooLong:
        return QueryEnd(why=Why.LENGTH)
    except MemoryError:
        return QueryEnd(why=Why.MEMORY)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except engine.OURS as bad:
        return QueryEnd(
            why=Why.ENGINE, message=f"{type(bad).__name__}: {bad}"[: engine.SHOWN_CHARS]
        )
    except Exception as bad:  # the library has no separate type for errors of queries
        if _OUT_OF_POOL in str(bad):
            return QueryEnd(why=Why.MEMORY)
        return refused(str(bad))
    except BaseException as bad:  # a panic of the library
        return QueryEnd(why=Why.ENGINE, message=str(bad)[: engine.SHOWN_CHARS])
    return QueryEnd()


def refusal(query: str, message: str, columns: Sequence[str] = ()) -> QueryEnd:
    """Return the end of a query that is wrong, with the place where it is."""
    said = reason(message, columns)
    where: Where | None
    if said.endswith(_ENDS):
        where = line_and_column(query, len(query.rstrip()))
    else:
        stated = told(said) if with_own_names(query) == query else None
        where = stated or located(query, said)
    if where is None:
        return QueryEnd(why=Why.QUERY, message=said)
    line, column = where
    place = "" if told(said) else f" (line {line}, column {column})"
    near = misspelt_keyword(query, line, column) if _PARSER.match(message) else None
    hint = "" if near is None else f"; {near}"
    return QueryEnd(why=Why.QUERY, message=said + place + hint, line=line, column=column)


def reason(message: str, columns: Sequence[str] = ()) -> str:
    """Return the engine's message without the names of its error types. `columns` may be meant by
    a name that it does not know."""
    parsed = _PARSER.match(message)
    if parsed is not None:
        return f"sql parser error: {parsed['said']}"[: engine.SHOWN_CHARS]
    said = _SIGNATURE.sub("", _ADVICE.sub("", _KIND.sub("", message)))
    unknown = _NO_FIELD.match(said)
    near = None if unknown is None else _nearest(unknown["name"], columns)
    if unknown is not None and near is not None:
        said = f"{unknown[0]} Did you mean {quoted_name(near)}?{said[unknown.end() :]}"
    instead = next((advice for begins, advice in _INSTEAD if begins.match(said)), None)
    said = said[: engine.SHOWN_CHARS]
    return said if instead is None else f"{said}; {instead}"


def _nearest(name: str, columns: Sequence[str]) -> str | None:
    """Return the column that is most like a name, first of all one that differs by case only."""
    plain = name.rpartition(".")[2].strip('"')
    same = [each for each in columns if each.casefold() == plain.casefold()]
    return next(iter(same or get_close_matches(plain, columns, n=1)), None)


def _rules(question: Question) -> Rules:
    limits = question.limits
    return engine.beside_what_is_there(
        Rules(
            reads=(*_reads(), question.links, *{table.folder for table in question.tables}),
            writes=(question.scratch,),
            address_space=limits.process_bytes + MAPPED_BYTES,
            data=limits.process_bytes,
            cpu_s=limits.cpu_s,
            file_bytes=limits.spill_bytes,
            mode=question.confinement,
        )
    )


def _computed(
    question: Question,
    say: Callable[[bytes], None],
    hear: Callable[[bytes], bytes],
    open_index: OpenIndex,
) -> Iterator[bytes]:
    context = _context(question)
    register(context, question.tables, Path(question.links))
    shown, schema, used, parameters = _planned(context, question)
    _check_names(schema)
    names = base_names(question.tables)
    count = number_of_rows(shown.optimized_logical_plan(), question.tables, names)
    if count is not None:
        shown = context.from_arrow(pa.table([[count]] * len(schema), schema=schema))
    result = shown.limit(question.limit, question.skip)
    wanted = needed(result, question.tables, names, open_index)
    plan = Planned(
        schema=to_data(from_arrow(schema)),
        used={n: wanted.get(n, []) for n in used},
        parameters=parameters.serialize().to_pybytes() if len(parameters) else b"",
        adds_floats=_ADDS_FLOATS.search(result.logical_plan().display_indent_schema()) is not None,
    )
    say(frame(PLANNED, encoded(plan)))
    hear(LINKED)
    sent = 0
    batches = engine.batches(result, schema)
    for piece in encode.encoded(schema, batches, question.form, canonical=question.repeatable):
        sent += len(piece)
        if sent > question.limits.max_bytes:
            raise AnswerTooLong
        yield piece


def _context(question: Question) -> SessionContext:
    runtime = RuntimeEnvBuilder().with_disk_manager_specified(question.scratch)
    threads = 1 if question.repeatable else question.limits.threads
    settings = {**SETTINGS, "datafusion.execution.target_partitions": str(threads)}
    pool = runtime.with_fair_spill_pool(question.limits.pool_bytes)
    context = SessionContext(SessionConfig(settings), pool)
    forget_functions(context, iterates=False, moments=not question.repeatable)
    return context


def _planned(
    context: SessionContext, question: Question
) -> tuple[DataFrame, pa.Schema, set[int], pa.Schema]:
    """Return all rows, their columns, the numbers of the tables that they are from, and the
    parameters whose values are missing. Raises `InvalidQuery`."""
    runs = question.limit > 0
    result, parameters = bound(context, _checked(question), question.values, runs=runs)
    names = base_names(question.tables)
    found = judge(result, iterates=False, tables=names.keys() | view_names(question.tables))
    used = {names[name] for name in found if name in names}
    shown = _intervals_as_texts(engine.meant(context, result))
    schema = pa.schema(
        engine.plain(field).with_nullable(given.nullable)
        for field, given in zip(shown.schema(), result.schema(), strict=True)
    )
    return shown, schema, used, parameters


def _checked(question: Question) -> str:
    """Return the text of the query with names of this node. Raises `InvalidQuery`."""
    limits = question.limits
    size = QuerySize(bytes=limits.query_bytes, terms=limits.query_terms, depth=limits.query_depth)
    check_size([SqlQueryStep(query=question.query)], size, setting="ODF_NODE_QUERY_TEXT_BYTES")
    check_words(question.query)
    return with_own_names(question.query)


def _intervals_as_texts(result: DataFrame) -> DataFrame:
    """Return the frame with intervals as the engine writes them: no schema here has such a type."""
    schema = result.schema()
    if not any(pa.types.is_interval(field.type) for field in schema):
        return result
    _check_names(schema)
    return result.select(
        *[
            col(quoted_name(field.name)).cast(pa.string()).alias(field.name)
            if pa.types.is_interval(field.type)
            else col(quoted_name(field.name))
            for field in schema
        ]
    )


def _check_names(schema: pa.Schema) -> None:
    """Raise `InvalidQuery` if two columns would have the same name."""
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InvalidQuery(f"two columns are called {twice!r}: give one of them a name by AS")
