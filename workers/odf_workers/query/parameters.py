"""Parameters of a query, `?` or `$1`, `$2`, and the values that its caller sends beside its text.

A value becomes a literal in the plan of the query, never a part of its text, so no value can change
what the query asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pyarrow as pa
import re2
from datafusion import DataFrame, SessionContext

from odf_protocol.sql_text import quoted_text

from ..engines.datafusion.process import check_depth, planned
from ..engines.port.port import InvalidQuery

MOST = 1_000
"""Limit of the parameters of a query."""
UNKNOWN = pa.utf8()
"""Type of a parameter that the query does not tell."""
_TOKEN = re2.compile(
    r"(?s)'(?:''|[^'])*(?:'|\z)|\"(?:\"\"|[^\"])*(?:\"|\z)|`[^`]*(?:`|\z)|--[^\n]*"
    r"|(?P<comment>/\*.*?(?:\*/|\z))|(?P<mark>\?)|\$(?P<number>[0-9]{1,4}\b)"
)
"""A text, a quoted name or a comment, in which nothing is a parameter; or a parameter."""
_UNSURE = re2.compile(r"(?i)\be'|\$[a-z_]*\$|\$[0-9]+\$")
"""Beginnings of texts with an end or an escape of their own."""
_TYPED = re2.compile(
    r"(?P<rows>(?:skip|fetch): Some\()?Placeholder\(Placeholder \{ id: \"\$(?P<number>[0-9]+)\", "
    r"field: (?:(?:Some\(|None \}\), field: )Field \{ name: \"(?:[^\"\\]|\\.)*\", data_type: "
    r"(?P<type>\w+(?:\([^{}]*?\))?), )?"
)
"""A parameter in a plan as the engine writes it for developers, with its type or that of the CAST
around it, if either is known."""


def numbered(query: str) -> tuple[str, int]:
    """Return the query with `$1`, `$2`, … in place of `?`, and how many values it takes. Raises
    `InvalidQuery`."""
    found = list(_TOKEN.finditer(query))
    marks = sum(each["mark"] is not None for each in found)
    highest = max((int(each["number"]) for each in found if each["number"] is not None), default=0)
    if not marks and not highest:
        return query, 0
    nested = any("/*" in each["comment"][2:] for each in found if each["comment"] is not None)
    if marks and highest:
        raise InvalidQuery("parameters are written ? or $1, $2: a query has one of both forms")
    if nested or _UNSURE.search(query):
        raise InvalidQuery(
            "beside parameters no comment in a comment, no E'…' and no $…$ may stand"
        )
    if max(marks, highest) > MOST:
        raise InvalidQuery(f"a query has {MOST} parameters at most")
    numbers = itertools.count(1)
    text: str = _TOKEN.sub(
        lambda each: str(each[0]) if each["mark"] is None else f"${next(numbers)}", query
    )
    return text, max(marks, highest)


def types_of(context: SessionContext, text: str, count: int) -> list[pa.DataType]:
    """Return the types that the engine gives to parameters by what is around them. Raises
    `InvalidQuery`."""
    result = planned(text, context)
    check_depth(result)  # the engine calls itself for each part that it writes
    found: dict[int, pa.DataType] = {}
    for each in _TYPED.finditer(repr(result.logical_plan())):
        kind = pa.int64() if each["rows"] is not None else _type(context, each["type"])
        if kind is not None:
            found.setdefault(int(each["number"]), kind)
    return [found.get(number, UNKNOWN) for number in range(1, count + 1)]


def _type(context: SessionContext, text: str | None) -> pa.DataType | None:
    """Return the type of which this is the engine's text; None for one that it cannot read back."""
    if text is None or text == "Null":
        return None
    try:
        return context.sql(f"select arrow_cast(null, {quoted_text(text)})").schema().field(0).type
    except Exception:  # the library has no type for this error
        return None


def nulls(types: list[pa.DataType]) -> Mapping[str, pa.Scalar]:
    """Return values with which a query can be planned before it has any."""
    return {str(number): pa.scalar(None, kind) for number, kind in enumerate(types, 1)}


def values_of(stream: bytes, count: int) -> Mapping[str, pa.Scalar]:
    """Return the values in an Arrow stream of one row, a column for each parameter. Raises
    `InvalidQuery`."""
    try:
        with pa.ipc.open_stream(stream) as reader:
            rows = reader.read_all()
            rows.validate(full=True)
    except (pa.ArrowException, ValueError, OSError) as bad:
        raise InvalidQuery(f"the values of the parameters cannot be read: {bad!s:.200}") from None
    if rows.num_columns != count:
        raise InvalidQuery(f"the query takes {count} values; {rows.num_columns} were sent")
    if rows.num_rows != 1:
        raise InvalidQuery(f"values are sent for one run of the query, not for {rows.num_rows}")
    return {str(number): column[0] for number, column in enumerate(rows.columns, 1)}


def as_schema(types: list[pa.DataType]) -> pa.Schema:
    """Return the parameters as columns, for drivers."""
    return pa.schema([(f"${number}", kind) for number, kind in enumerate(types, 1)])


def bound(
    context: SessionContext, query: str, stream: bytes | None, *, runs: bool
) -> tuple[DataFrame, pa.Schema]:
    """Plan a query with the values that `stream` has, and return its parameters as columns. A query
    that does not run needs none; without a stream a query has no parameters. Raises
    `InvalidQuery`."""
    if stream is None:
        return planned(query, context), pa.schema([])
    text, count = numbered(query)
    try:
        return _with_values(context, text, count, stream, runs=runs)
    except InvalidQuery:
        if text != query:
            planned(query, context)  # an error of the parser is told with the places of the query
        raise


def _with_values(
    context: SessionContext, text: str, count: int, stream: bytes, *, runs: bool
) -> tuple[DataFrame, pa.Schema]:
    if not count:
        return planned(text, context), pa.schema([])
    if stream:
        return planned(text, context, values_of(stream, count)), pa.schema([])
    if runs:
        raise InvalidQuery("the values of its parameters are missing: bind them to the statement")
    types = types_of(context, text, count)
    return planned(text, context, nulls(types)), as_schema(types)
