"""Hints of a client about the rows it wants, as filters: a file that holds none is left out.

A hint that is not understood restricts nothing, since the client filters again. Source: Delta
Sharing protocol, "JSON predicates for Filtering".
"""

from __future__ import annotations

from typing import Any

import msgspec

from odf_node.protocol.typed import decode_json
from odf_node.storage.datasets.pruning.filters import Filter

_COMPARED = {
    "equal": "eq",
    "lessThan": "lt",
    "lessThanOrEqual": "le",
    "greaterThan": "gt",
    "greaterThanOrEqual": "ge",
}
_TURNED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
MOST = 100
"""Comparisons that are looked at."""


class _Node(msgspec.Struct):
    """A part of a predicate."""

    op: str
    children: list[_Node] = []
    name: str = ""
    value: str = ""
    value_type: str = msgspec.field(name="valueType", default="")


def filters_of(hints: str | None) -> tuple[Filter, ...]:
    """All that is true of every wanted row, as far as it is understood."""
    if not hints:
        return ()
    try:
        tree = decode_json(hints.encode(), _Node)
    except (msgspec.DecodeError, UnicodeError):
        return ()
    found: list[Filter] = []
    todo = [tree]
    while todo and len(found) < MOST:
        node = todo.pop()
        if node.op == "and":
            todo += node.children
        elif (one := _filter(node)) is not None:
            found.append(one)
    return tuple(found)


def _filter(node: _Node) -> Filter | None:
    operator = _COMPARED.get(node.op)
    if operator is None or len(node.children) != 2:
        return None
    left, right = node.children
    if (left.op, right.op) == ("literal", "column"):
        left, right, operator = right, left, _TURNED[operator]
    if (left.op, right.op) != ("column", "literal"):
        return None
    return Filter(left.name, operator, (right.value,))


def usable(filters: tuple[Filter, ...], names: Any) -> tuple[Filter, ...]:
    """Those on columns that there are."""
    return tuple(each for each in filters if each.column in names)
