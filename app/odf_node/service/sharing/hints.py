"""Parse a client's hints about the wanted rows; files without such rows can be omitted.

A hint that we do not understand restricts nothing, since the client filters again. Values are
compared only with columns of the same kind, because engines differ for other kinds. Source: Delta
Sharing protocol, "JSON predicates for Filtering", "SQL Expressions for Filtering".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice, product
from typing import NamedTuple

import msgspec

from odf_protocol.typed import decode_json
from odf_storage.datasets.pruning.filters import Filter

MOST = 100
"""Limit of comparisons, of alternatives, and of levels of a predicate."""


class Hint(NamedTuple):
    """A comparison of a column, and the kinds of columns (`kind_of`) to which it applies."""

    filter: Filter
    kinds: frozenset[str]


Alternatives = Sequence[tuple[Hint, ...]]
"""A wanted row satisfies all comparisons of at least one of these tuples."""
ANYTHING: Alternatives = ((),)
_NUMBERS = frozenset({"integer", "float", "decimal"})
_KINDS = {
    "bool": frozenset({"bool"}),
    "int": _NUMBERS,
    "long": _NUMBERS,
    "float": _NUMBERS,
    "double": _NUMBERS,
    "string": frozenset({"text"}),
    "date": frozenset({"date"}),
    "timestamp": frozenset({"timestamp with zone"}),
}
_QUOTED = frozenset({"text", "date", "timestamp with zone"})
_COMPARED = {
    "equal": "eq",
    "lessThan": "lt",
    "lessThanOrEqual": "le",
    "greaterThan": "gt",
    "greaterThanOrEqual": "ge",
}
_TURNED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_WRITTEN = {"=": "eq", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_NAME = r"(\w+|`(?:[^`]|``)+`)"
_VALUE = r"('(?:[^'\\]|'')*'|[+-]?\d+(?:\.\d+)?)"
_OPERATOR = r"\s*(=|<=?|>=?)\s*"
_COLUMN_FIRST = re.compile(rf"\s*{_NAME}{_OPERATOR}{_VALUE}\s*")
_VALUE_FIRST = re.compile(rf"\s*{_VALUE}{_OPERATOR}{_NAME}\s*")


class _Node(msgspec.Struct):
    """A node of a JSON predicate."""

    op: str
    children: list[_Node] = []
    name: str = ""
    value: str = ""
    value_type: str = msgspec.field(name="valueType", default="")


def hints_of(tree: str | None, texts: Iterable[str] = ()) -> Alternatives:
    """Return the hints of a JSON predicate and SQL texts; a wanted row satisfies all of them."""
    found = _tree(tree)
    for text in islice(texts, MOST):
        one = _sql(text)
        if one is not None:
            found = _all([found, ((one,),)])
    return found


def _tree(text: str | None) -> Alternatives:
    try:
        return ANYTHING if not text else _of(decode_json(text.encode(), _Node), 0)
    except (msgspec.DecodeError, UnicodeError):
        return ANYTHING


def _of(node: _Node, depth: int) -> Alternatives:
    if depth > MOST:
        return ANYTHING
    if node.op in ("and", "or"):
        if node.op == "or" and len(node.children) > MOST:
            return ANYTHING
        parts = [_of(each, depth + 1) for each in node.children[:MOST]]
        return _all(parts) if node.op == "and" else _any(parts)
    one = _compared(node)
    return ANYTHING if one is None else ((one,),)


def _all(parts: Iterable[Alternatives]) -> Alternatives:
    found = ANYTHING
    for part in parts:
        terms = len(found) * sum(map(len, part)) + len(part) * sum(map(len, found))
        if terms <= MOST:
            found = [(*one, *other) for one, other in product(found, part)]
    return found


def _any(parts: Sequence[Alternatives]) -> Alternatives:
    found = [each for part in parts for each in part]
    return found if found and sum(map(len, found)) <= MOST else ANYTHING


def _compared(node: _Node) -> Hint | None:
    operator = _COMPARED.get(node.op)
    if operator is None or len(node.children) != 2:
        return None
    left, right = node.children
    if (left.op, right.op) == ("literal", "column"):
        left, right, operator = right, left, _TURNED[operator]
    kinds = _KINDS.get(left.value_type)
    if (left.op, right.op) != ("column", "literal") or kinds is None:
        return None
    same = right.value_type == left.value_type
    return Hint(Filter(left.name, operator, (right.value,)), kinds) if same else None


def _sql(text: str) -> Hint | None:
    """Parse one comparison of a column with a value, in either order."""
    if (match := _COLUMN_FIRST.fullmatch(text)) is not None:
        name, operator, value = match[1], _WRITTEN[match[2]], match[3]
    elif (match := _VALUE_FIRST.fullmatch(text)) is not None:
        value, operator, name = match[1], _TURNED[_WRITTEN[match[2]]], match[3]
    else:
        return None
    if name[0] == "`":
        name = name[1:-1].replace("``", "`")
    if value[0] == "'":
        return Hint(Filter(name, operator, (value[1:-1].replace("''", "'"),)), _QUOTED)
    return Hint(Filter(name, operator, (value,)), _NUMBERS)
