"""Convert filters to a predicate on columns of a dataset; restrict a predicate to some columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from odf_protocol.kartothek.errors import UnsupportedColumn
from odf_protocol.kartothek.partition_values import read_value
from odf_protocol.kartothek.predicates import Op, Predicate, Term
from odf_protocol.kartothek.types import kind_of

from .filters import OPERATORS, Filter, MalformedFilter

_COMPARED = frozenset(
    {
        "bool",
        "integer",
        "float",
        "text",
        "binary",
        "date",
        "decimal",
        "timestamp",
        "timestamp with zone",
    }
)


def predicate_of(filters: Sequence[Filter], schema: pa.Schema) -> Predicate:
    """Return the conjunction of the filters; values get the types of their columns in the schema.

    Values have the same form as in JSON records: instants with `Z`, bytes in hex, decimals
    unchanged. Raise `MalformedFilter`.
    """
    return [[_term(each, schema.field(each.column).type) for each in filters]]


def columns_of(predicate: Predicate) -> list[str]:
    """Return the columns that a predicate uses, each once."""
    return list(dict.fromkeys(term.column for terms in predicate for term in terms))


def weakened(predicate: Predicate, columns: Collection[str]) -> Predicate | None:
    """Return the part of a predicate that uses only these columns. It is true for every row for
    which the whole predicate is true. None if it is true for all rows.
    """
    parts = [[term for term in terms if term.column in columns] for terms in predicate]
    return parts if all(parts) else None


def _term(asked: Filter, wanted: pa.DataType) -> Term:
    op = Op(OPERATORS[asked.operator])
    if op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return Term(asked.column, op)
    values = [_value(asked.column, text, wanted) for text in asked.values]
    return Term(asked.column, op, values if op is Op.IN else values[0])


def _value(column: str, text: str, wanted: pa.DataType) -> pa.Scalar:
    try:
        kind = kind_of(wanted)
    except UnsupportedColumn:
        kind = ""
    if kind not in _COMPARED:
        raise MalformedFilter(
            f"column {column[:100]!r} of type {wanted} is compared with no value",
            column=column[:100],
        )
    try:
        if kind == "binary":
            return pa.scalar(bytes.fromhex(text), wanted)
        if kind == "timestamp":
            text = text.removesuffix("Z")
        return read_value(text, wanted).cast(wanted)
    except (ValueError, pa.ArrowException) as error:
        shown = text[:100].encode("utf-8", "replace").decode()
        raise MalformedFilter(
            f"{shown!r} is no value of column {column[:100]!r} of type {wanted}: "
            f"{str(error)[:200]}",
            column=column[:100],
        ) from None
