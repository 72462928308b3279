"""Filters as requests write them: a column, an operator, values as text. Pure; without Arrow.

city:eq:Berlin    population:ge:1000    city:in:a,"b, c"    city:null
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass

from odf_protocol.errors import BadInput

OPERATORS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "in": "in",
    "null": "is null",
    "notnull": "is not null",
}
"""Operators of predicates by the words that requests use."""
_FORM = re.compile(rf"(.+?):({'|'.join(OPERATORS)})(?::(.*))?", re.DOTALL)
_BARE = frozenset({"null", "notnull"})


class MalformedFilter(BadInput):
    """A filter has a wrong form, or its value does not fit the type of the column."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A comparison of a column with a value, or with several for `in`."""

    column: str
    operator: str
    """A key of `OPERATORS`."""
    values: tuple[str, ...] = ()


def parsed_filter(text: str) -> Filter:
    """Parse `column:operator:value`; the column ends at the first operator.

    Raises:
        MalformedFilter.
    """
    match = _FORM.fullmatch(text)
    if match is None or (match[3] is None) != (match[2] in _BARE):
        known = ", ".join(OPERATORS)
        raise MalformedFilter(
            f"a filter is column:operator:value, or column:null, with an operator of {known}; "
            f"not {text[:100]!r}",
            filter=text[:100],
        )
    if match[2] in _BARE:
        return Filter(match[1], match[2])
    return Filter(match[1], match[2], _several(match[3]) if match[2] == "in" else (match[3],))


def equal(columns: Iterable[str], values: Iterable[str]) -> tuple[Filter, ...]:
    """Return filters that each column equals its value. Raise `MalformedFilter` if there are no
    columns or not as many values."""
    columns, values = tuple(columns), tuple(values)
    if not columns or len(columns) != len(values):
        raise MalformedFilter(
            "name a column and a value, or several: as many values as columns",
            columns=len(columns),
            values=len(values),
        )
    pairs = zip(columns, values, strict=True)
    return tuple(Filter(column, "eq", (value,)) for column, value in pairs)


def _several(text: str) -> tuple[str, ...]:
    """Parse values separated by commas, quoted as in CSV if they have a comma."""
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error as error:
        raise MalformedFilter(f"the values of in: {error}", filter=text[:100]) from None
    return tuple(rows[0]) if rows else ()
