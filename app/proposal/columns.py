"""Columns of records with one type each, such that a single source can read them all.

A source has one pattern for dates and one for times. Columns that do not fit the chosen pattern
stay text, and a remark says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from odf_node.protocol.arrow_schema import UnsupportedSchema, from_arrow
from odf_node.protocol.errors import BadInput
from odf_node.protocol.metadata.schema import (
    DataType,
    DataTypeBool,
    DataTypeDate,
    DataTypeFloat64,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
)

from .records import Records
from .values import Guess, guess, is_day_first, null_word

TYPES: dict[str, DataType] = {
    "String": DataTypeString(),
    "Int64": DataTypeInt64(),
    "Float64": DataTypeFloat64(),
    "Bool": DataTypeBool(),
    "Date": DataTypeDate(),
    "Timestamp": DataTypeTimestamp(),
}
"""Types that a person may choose for a column."""
TEMPORAL = ("Date", "Timestamp")


class UnknownColumn(BadInput):
    """A choice for a column that the file does not have, or of an unknown type."""


class DateOrder(StrEnum):
    """Whether the day or the month is first in numeric dates."""

    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"


@dataclass(frozen=True, slots=True)
class Column:
    """A column in the proposal."""

    name: str
    type: DataType
    kind: str
    """Name of the type."""
    note: str = ""
    has_nulls: bool = True
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns, and the options of the source that are needed to read them."""

    columns: tuple[Column, ...]
    null_value: str | None = None
    patterns: Mapping[str, str | None] | None = None
    """Patterns by the kind of column: `Date`, `Timestamp`."""
    questions: tuple[str, ...] = ()
    """Questions for a person, which the sample does not answer."""


def columns_of(
    records: Records,
    types: Mapping[str, str],
    order: DateOrder | None,
    *,
    is_text: bool,
    has_patterns: bool,
) -> Columns:
    """Propose the columns of records. `is_text` means that all values are texts; `has_patterns`,
    that sources of the format declare patterns of times.

    Raises:
        UnknownColumn
    """
    for name, chosen in types.items():
        if name not in records.names:
            raise UnknownColumn(f"the file has no column {name[:100]!r}", column=name[:100])
        if chosen not in TYPES:
            known = ", ".join(TYPES)
            raise UnknownColumn(f"a type is one of {known}, not {chosen[:50]!r}", column=name[:100])
    word = _null_word(records) if is_text else None
    values = {
        name: [one for one in column if one is not None and one != word]
        for name, column in zip(records.names, records.columns, strict=True)
    }
    guesses = {name: _guess(name, found) for name, found in values.items()}
    patterns: dict[str, str | None] = dict.fromkeys(TEMPORAL)
    questions: list[str] = []
    for kind in TEMPORAL if has_patterns else ():
        patterns[kind], asked = _pattern_for(kind, guesses, order)
        questions += asked
    columns = []
    for name, column in zip(records.names, records.columns, strict=True):
        found = _settled(guesses[name], patterns)
        kind = types.get(name, found.type)
        note = found.note if name not in types else "as you say"
        columns.append(
            Column(
                name=name,
                type=TYPES[kind] if kind in TYPES else _nested(values[name]),
                kind=kind,
                note=note,
                has_nulls=len(values[name]) < len(column),
                values=column,
            )
        )
    return Columns(tuple(columns), word, patterns, tuple(questions))


def optional(column: Column, *, is_required: bool) -> DataType:
    """Return the type for a schema: it allows null, unless the column is part of the key or the
    event time."""
    return column.type if is_required else DataTypeOption(inner=column.type)


def _null_word(records: Records) -> str | None:
    """Return the word for a missing value that most columns use."""
    found = Counter(
        word
        for column in records.columns
        if (word := null_word([text for text in column if text is not None])) is not None
    )
    return found.most_common(1)[0][0] if found else None


def _guess(name: str, values: Sequence[Any]) -> Guess:
    kinds = {type(one) for one in values}
    if kinds <= {str}:
        return guess(name, values)
    if kinds == {bool}:
        return Guess("Bool")
    if kinds == {int}:
        return guess(name, [str(one) for one in values])
    if kinds <= {int, float}:
        return Guess("Float64")
    if kinds <= {dict} or kinds <= {list}:
        return Guess("nested")
    return Guess("String", note="values of several kinds, which the node refuses as text")


def _pattern_for(
    kind: str, guesses: Mapping[str, Guess], order: DateOrder | None
) -> tuple[str | None, list[str]]:
    """Return the pattern that most columns of the kind use, or None if that is ISO 8601; and
    questions."""
    of_kind = {name: one for name, one in guesses.items() if one.type == kind}
    plain = [name for name, one in of_kind.items() if not one.patterns]
    counted = Counter(pattern for one in of_kind.values() for pattern in one.patterns)
    if not counted or len(plain) >= max(counted.values()):
        return None, []
    most = max(counted.values())
    likely = [pattern for pattern, count in counted.items() if count == most]
    first = [pattern for pattern in likely if is_day_first(pattern) is True]
    second = [pattern for pattern in likely if is_day_first(pattern) is False]
    if not (first and second):
        return likely[0], []
    if order is not None:
        return (first if order is DateOrder.DAY_FIRST else second)[0], []
    names = ", ".join(name for name, one in of_kind.items() if first[0] in one.patterns)
    question = (
        f"{names}: the sample does not tell whether the day or the month comes first; "
        f"proposed is {first[0]} (--date-order mdy for {second[0]})"
    )
    return first[0], [question]


def _settled(found: Guess, patterns: Mapping[str, str | None]) -> Guess:
    """Decide on a column, given the patterns of its source."""
    if found.type not in TEMPORAL:
        return found
    pattern = patterns[found.type]
    if pattern is None and not found.patterns:
        return found
    if pattern is not None and pattern in found.patterns:
        return replace(found, note=f"written as {pattern}")
    written = found.patterns[0] if found.patterns else "yyyy-MM-dd"
    read = pattern or "yyyy-MM-dd"
    return Guess("String", note=f"written as {written}; this source reads {read}, so text")


def _nested(values: Sequence[Any]) -> DataType:
    """Return the type of objects or lists; text if their parts have no common type."""
    try:
        schema = from_arrow(pa.schema([pa.field("x", pa.array(values).type)]))
    except (pa.ArrowException, UnsupportedSchema, OverflowError):
        return DataTypeString()
    found = schema.fields[0].type
    return found.inner if isinstance(found, DataTypeOption) else found
