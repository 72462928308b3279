"""The serialised form of plans, as far as `meaning.py` rewrites them: which fields of a message are
nodes or expressions, and how new expressions are written.

A node or an expression is a message with one field, whose number says its kind. Kinds that are not
listed here are not rebuilt. The numbers are those of the pinned version of the engine; tests
compare rewritten plans with what the engine makes of them.

Extend DataFusion plans: pass the number of the input row along, and make a final order total.

This module rebuilds a plan node by node, and adds a hidden column that passes from the inputs to
the result. The author of the query does not see it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionContext, col
from datafusion.expr import SortExpr

from odf_protocol.flight_sql import FIXED64, bytes_field, fields, varint_field
from odf_protocol.sql_text import quoted_name

from ..port.port import ROW, InvalidQuery

COLUMN, ALIAS, LITERAL, BINARY, NOT, BETWEEN, CASE, CAST, IN_LIST = 1, 2, 3, 4, 8, 9, 10, 11, 14
WINDOW_CALL, AGGREGATE_CALL, CALL, GROUPING_SETS, CUBE, ROLLUP, SUBQUERY = (
    18,
    19,
    20,
    22,
    23,
    24,
    36,
)
"""Kinds of expressions that are treated by their meaning."""
PROJECTION, AGGREGATE, JOIN, SORT, WINDOW, DISTINCT, DISTINCT_ON = 3, 6, 7, 8, 13, 23, 28
"""Kinds of nodes that are treated by their meaning."""

Path = tuple[int, ...]
"""Numbers of nested fields that lead from a message to the expressions in it."""
GROUP_KEYS, JOIN_LEFT, JOIN_RIGHT, JOIN_FILTER, CASE_OF = (2,), (5,), (6,), (8,), (1,)
JOIN_CONSTRAINT, DISTINCT_CALL = 4, 5
PLAN: Path = (1, 1)
"""Where the plan of a subquery is."""
EXPRESSIONS: Mapping[int, Sequence[Path]] = {
    COLUMN: (),
    ALIAS: ((1,),),
    LITERAL: (),
    BINARY: ((1,),),
    6: ((1,),),  # IS NULL
    7: ((1,),),  # IS NOT NULL
    NOT: ((1,),),
    BETWEEN: ((1,), (3,), (4,)),
    CASE: ((1,), (2, 1), (2, 2), (3,)),
    CAST: ((1,),),
    13: ((1,),),  # minus
    IN_LIST: ((1,), (2,)),
    17: ((1,),),  # TRY_CAST
    WINDOW_CALL: ((4,), (5,), (6, 1)),
    AGGREGATE_CALL: ((2,), (3,), (4, 1)),
    CALL: ((2,),),
    GROUPING_SETS: ((1, 1),),
    CUBE: ((1,),),
    ROLLUP: ((1,),),
    **dict.fromkeys(range(25, 31), ((1,),)),  # IS TRUE, IS NOT TRUE, …
    SUBQUERY: (),
    **dict.fromkeys(range(31, 34), ((2,), (3,))),  # LIKE, ILIKE, SIMILAR TO
}
"""Where the expressions are in an expression, by its kind."""


@dataclass(frozen=True, slots=True)
class PlanNode:
    """Where the nodes below and the expressions are in a node."""

    below: Sequence[int] = (1,)
    expressions: Sequence[Path] = ()
    name: Path = ()
    """Where it names itself as a table."""


NODES: Mapping[int, PlanNode] = {
    1: PlanNode(below=(), name=(14, 1, 1)),  # files
    PROJECTION: PlanNode(expressions=((2,),)),
    4: PlanNode(expressions=((2,),)),  # filter
    5: PlanNode(),  # limit
    AGGREGATE: PlanNode(expressions=((2,), (3,))),
    JOIN: PlanNode(below=(1, 2), expressions=((5,), (6,), (8,))),
    SORT: PlanNode(expressions=((2, 1),)),
    10: PlanNode(below=()),  # one row without columns
    WINDOW: PlanNode(expressions=((2,),)),
    16: PlanNode(below=(), expressions=((2,),)),  # VALUES
    19: PlanNode(),  # UNION ALL
    21: PlanNode(name=(3, 1, 1)),  # a table with an alias
    DISTINCT: PlanNode(),
    DISTINCT_ON: PlanNode(below=(4,), expressions=((1,), (2,), (3, 1))),  # DISTINCT ON
    30: PlanNode(),  # UNNEST
    31: PlanNode(below=(2, 3)),  # a recursive query
    32: PlanNode(below=()),  # the rows so far of a recursive query
}
"""The kinds of nodes, with the fields of each."""

_TYPES: Mapping[pa.DataType, int] = {
    pa.uint8(): 3,
    pa.int8(): 4,
    pa.uint16(): 5,
    pa.int16(): 6,
    pa.uint32(): 7,
    pa.int32(): 8,
    pa.uint64(): 9,
    pa.int64(): 10,
    pa.float16(): 11,
    pa.float32(): 12,
    pa.float64(): 13,
}
_DECIMALS = {128: 24, 256: 36}
ONE_ROW = bytes_field(10, varint_field(1, 1))
"""A node with one row, and no columns."""
_TRUE = bytes_field(LITERAL, varint_field(1, 1))


class CannotRebuild(Exception):
    """The plan has a node or an expression that is not listed here."""


def opened(message: bytes) -> tuple[int, bytes]:
    """Return the kind of a node or an expression, and what it has."""
    for number, content in fields(message):
        if isinstance(content, bytes):
            return number, content
    raise CannotRebuild("a message without content")


def children(content: bytes, paths: Sequence[Path]) -> list[bytes]:
    """Return the messages at these paths."""
    found = []
    for number, value in fields(content):
        deeper = [path[1:] for path in paths if path[0] == number]
        if not deeper:
            continue
        if not isinstance(value, bytes):
            raise CannotRebuild(f"a number in the field {number}")
        if () in deeper:
            found.append(value)
        else:
            found += children(value, deeper)
    return found


def remade(content: bytes, paths: Sequence[Path], change: Callable[[bytes, Path], bytes]) -> bytes:
    """Return the content with the messages at these paths changed; `change` gets the path too."""
    return _remade(content, paths, (), change)


def _remade(
    content: bytes, paths: Sequence[Path], at: Path, change: Callable[[bytes, Path], bytes]
) -> bytes:
    made = []
    for number, value in fields(content):
        if isinstance(value, int):
            made.append(varint_field(number, value))
            continue
        here, deeper = (*at, number), [path[1:] for path in paths if path[0] == number]
        if () in deeper:
            value = change(value, here)
        elif deeper:
            value = _remade(value, deeper, here, change)
        made.append(bytes_field(number, value))
    return b"".join(made)


def with_clear_names(plan: bytes) -> bytes:
    """Return the plan with the tables of its columns in quotes: the engine writes such a name as it
    is, and reads it as if it stood in a query, where a dot and capital letters mean something."""
    names = frozenset(_bare_names(plan))

    def node(each: bytes) -> bytes:
        kind, content = opened(each)
        shape = _shape(kind)
        content = remade(content, [(number,) for number in shape.below], lambda one, _: node(one))
        return bytes_field(kind, remade(content, shape.expressions, expression))

    def expression(each: bytes, _: Path = ()) -> bytes:
        kind, content = opened(each)
        if kind == COLUMN:
            return bytes_field(kind, remade(content, [(2, 1)], lambda name, _: quote(name)))
        if kind == SUBQUERY:
            inner = remade(content, [PLAN], lambda one, _: with_clear_names(one))
            return bytes_field(kind, inner)
        if kind not in EXPRESSIONS:
            raise CannotRebuild(f"an expression of the kind {kind}")
        if not EXPRESSIONS[kind]:
            return each
        return bytes_field(kind, remade(content, EXPRESSIONS[kind], expression))

    def quote(name: bytes) -> bytes:
        return b'"' + name.replace(b'"', b'""') + b'"' if name in names else name

    return node(plan)


def _bare_names(plan: bytes) -> Iterator[bytes]:
    """Yield the names of tables in the plan that have no catalogue or schema."""
    kind, content = opened(plan)
    shape = _shape(kind)
    if shape.name:
        yield from children(content, [shape.name])
    for each in children(content, [(number,) for number in shape.below]):
        yield from _bare_names(each)


def _shape(kind: int) -> PlanNode:
    if kind not in NODES:
        raise CannotRebuild(f"a node of the kind {kind}")
    return NODES[kind]


def relation_of(column: bytes) -> list[bytes]:
    """Return the table of a column, in the form that an alias has; nothing if it has none."""
    (name,) = children(column, [(2, 1)]) or (None,)
    if name is None:
        return []
    if name.startswith(b'"'):
        bare = bytes_field(1, name[1:-1].replace(b'""', b'"'))
        return [bytes_field(1, bare)]
    parts = name.split(b".")
    told = b"".join(bytes_field(at, part) for at, part in enumerate(parts, start=1))
    return [bytes_field(len(parts), told)]


def without(content: bytes, number: int) -> bytes:
    """Return the content without the fields of this number."""
    return b"".join(
        varint_field(each, value) if isinstance(value, int) else bytes_field(each, value)
        for each, value in fields(content)
        if each != number
    )


def name_of(content: bytes, number: int = 1) -> str:
    """Return the text in a field; empty if there is none."""
    found = next((value for each, value in fields(content) if each == number), b"")
    return found.decode() if isinstance(found, bytes) else str(found)


def aliased(expression: bytes, name: str, relation: Sequence[bytes] = ()) -> bytes:
    """Return the expression under a name; `relation` is that of the column it stands for."""
    told = bytes_field(1, expression) + bytes_field(2, name.encode())
    return bytes_field(ALIAS, told + b"".join(bytes_field(3, each) for each in relation))


def binary(operator: str, *operands: bytes) -> bytes:
    told = b"".join(bytes_field(1, each) for each in operands)
    return bytes_field(BINARY, told + bytes_field(3, operator.encode()))


def cast(expression: bytes, kind: pa.DataType) -> bytes:
    """Return a cast to a number type, which fails for a number that does not fit."""
    told = bytes_field(1, expression) + bytes_field(2, _type(kind)) + varint_field(4, 1)
    return bytes_field(CAST, told)


def normalised(expression: bytes) -> bytes:
    """Return a float as 64 bits, with equal bits for equal values: one NaN, no -0.0."""
    wide = cast(expression, pa.float64())
    told = bytes_field(1, b"nanvl") + bytes_field(2, wide) + bytes_field(2, _float(float("nan")))
    return binary("Plus", bytes_field(CALL, told), _float(0.0))


def projected(below: bytes, expressions: Sequence[bytes]) -> bytes:
    """Return a node that computes the expressions from the rows of the node `below`."""
    told = bytes_field(1, below) + b"".join(bytes_field(2, each) for each in expressions)
    return bytes_field(PROJECTION, told)


def joined(left: bytes, right: bytes) -> bytes:
    """Return a node with the columns of both nodes."""
    return bytes_field(JOIN, bytes_field(1, left) + bytes_field(2, right) + bytes_field(8, _TRUE))


def _float(value: float) -> bytes:
    number = struct.pack("<d", value)
    return bytes_field(LITERAL, bytes([13 << 3 | FIXED64]) + number)


def _type(kind: pa.DataType) -> bytes:
    if pa.types.is_decimal(kind):
        scale = varint_field(4, kind.scale) if kind.scale else b""
        return bytes_field(_DECIMALS[kind.bit_width], varint_field(3, kind.precision) + scale)
    return bytes_field(_TYPES[kind], b"")


ORDER_INSIDE = "ORDER BY is possible at the end of the last query only"


class CannotFollow(Exception):
    """The plan has a node that this module cannot rebuild."""


def with_rows(context: SessionContext, result: DataFrame) -> DataFrame:
    """Return the frame with the column `ROW`, which the views of its inputs hide.

    Raises:
        CannotFollow: the plan has a node that makes several rows of one.
    """
    return _carried(context, result.logical_plan())


def has_order(result: DataFrame) -> bool:
    """Return whether the query orders its rows. Raise `InvalidQuery` if an inner part does."""
    nodes = [result.logical_plan()]
    top = _kind(nodes[0])
    if top == "Projection":
        top = _kind(nodes[0].inputs()[0])
    found = 0
    while nodes:
        node = nodes.pop()
        found += _kind(node) == "Sort"
        nodes.extend(node.inputs())
    if found and top != "Sort":
        raise InvalidQuery(ORDER_INSIDE)
    return found > 0


def in_total_order(context: SessionContext, result: DataFrame) -> DataFrame:
    """Return the frame with all columns added to its ORDER BY, but nested ones."""
    plan = result.logical_plan()
    projection = plan if _kind(plan) == "Projection" else None
    sort = plan.inputs()[0] if projection is not None else plan
    below = context.create_dataframe_from_logical_plan(sort.inputs()[0])
    given = [
        SortExpr(Expr(each.expr()), each.ascending(), each.nulls_first())
        for each in sort.to_variant().sort_exprs()
    ]
    ties = [
        SortExpr(col(quoted_name(field.name)), ascending=True, nulls_first=True)
        for field in below.schema()
        if not pa.types.is_nested(field.type)
    ]
    total = below.sort(*given, *ties)
    if projection is not None:
        total = total.select(*[Expr(each) for each in projection.to_variant().projections()])
    return total


def _carried(context: SessionContext, node: Any) -> DataFrame:
    variant = node.to_variant()
    kind = type(variant).__name__
    if kind == "Projection":
        known = context.create_dataframe_from_logical_plan(node)
        if ROW in known.schema().names:
            return known
    below = [_carried(context, child) for child in node.inputs()]
    match kind:
        case "SubqueryAlias":
            return below[0].alias(quoted_name(variant.alias()))
        case "Filter":
            return below[0].filter(Expr(variant.predicate()))
        case "Projection":
            columns = [Expr(each) for each in variant.projections()]
            return below[0].select(*columns, col(quoted_name(ROW)))
        case "Union":
            frame = below[0]
            for branch in below[1:]:
                frame = frame.union(branch)
            return frame
    raise CannotFollow(kind)


def _kind(node: Any) -> str:
    return type(node.to_variant()).__name__
