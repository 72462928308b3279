"""Statistics of a column in a sample of rows: nulls, least and greatest value, distribution.

These are pure functions of JSON values, as `odf_storage/datasets/read/records.py` writes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from .cells import cell_text

BARS = 12
MAX_SPAN = 1e300
MEASURES: dict[str, Callable[[Any], float]] = {
    **dict.fromkeys(
        ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"), float
    ),
    **dict.fromkeys(("Float16", "Float32", "Float64", "Decimal"), float),
    "Timestamp": lambda text: datetime.fromisoformat(text).timestamp(),
    "Date": lambda text: float(date.fromisoformat(text).toordinal()),
}
"""Functions that map a value to a number, by the kind of its type."""
COUNTED = ("Bool", "String")
"""Kinds whose frequent values are counted."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Statistics of a column. `bars` are counts: of values from `least` to `greatest` in steps of
    equal width, or of the most frequent values, which `frequent` lists."""

    nulls: int
    distinct: int | None = None
    least: str | None = None
    greatest: str | None = None
    bars: tuple[int, ...] = ()
    frequent: tuple[str, ...] = ()


def facts_of(
    kind: dict[str, Any], values: Sequence[Any], ends: Sequence[Any] | None = None
) -> ColumnFacts:
    """Return the statistics of a column from a sample of its values. `ends` are the least and the
    greatest of all its values, if they are known. Nested and binary columns have only the count of
    nulls."""
    while kind["kind"] == "Option":
        kind = kind["inner"]
    there = [value for value in values if value is not None]
    nulls = len(values) - len(there)
    told = _ends_told(ColumnFacts(nulls), ends)
    if not there or (kind["kind"] not in MEASURES and kind["kind"] not in COUNTED):
        return told
    measure = MEASURES.get(kind["kind"])
    measured = _measured(measure, there)
    if measured is None:
        # slices by strangers may have another type than the schema says
        is_plain = len({type(value) for value in there} - {str, bool}) == 0
        return _ends_told(_counted(nulls, there), ends) if is_plain else told
    order = sorted(range(len(there)), key=measured.__getitem__)
    found = ColumnFacts(
        nulls,
        distinct=len(set(there)),
        least=cell_text(there[order[0]]),
        greatest=cell_text(there[order[-1]]),
        bars=_spread(measured, _measured(measure, ends) if ends else None),
    )
    return _ends_told(found, ends)


def _ends_told(facts: ColumnFacts, ends: Sequence[Any] | None) -> ColumnFacts:
    if ends is None:
        return facts
    least, greatest = map(cell_text, ends)
    return replace(facts, least=least, greatest=greatest)


def _measured(measure: Callable[[Any], float] | None, values: Sequence[Any]) -> list[float] | None:
    """Return the values as numbers; None if one cannot be converted, such as a year 10000."""
    if measure is None:
        return None
    try:
        measured = [measure(value) for value in values]
    except (ValueError, OverflowError, TypeError):
        return None
    return measured if all(map(math.isfinite, measured)) else None


def _spread(measured: Sequence[float], ends: Sequence[float] | None) -> tuple[int, ...]:
    low, high = min(*measured, *(ends or measured)), max(*measured, *(ends or measured))
    if low == high:
        return ()
    # the difference of two floats may exceed the largest float
    scale = 1.0 if high - low < MAX_SPAN else 1 / MAX_SPAN
    span = high * scale - low * scale
    places = (int((value * scale - low * scale) * BARS / span) for value in measured)
    counts = Counter(min(BARS - 1, place) for place in places)
    return tuple(counts[bar] for bar in range(BARS))


def _counted(nulls: int, values: Sequence[Any]) -> ColumnFacts:
    counts = Counter(values)
    most = counts.most_common(BARS) if len(counts) < len(values) else []
    return ColumnFacts(
        nulls,
        distinct=len(counts),
        least=cell_text(min(values, key=str)),
        greatest=cell_text(max(values, key=str)),
        bars=tuple(count for _, count in most),
        frequent=tuple(str(cell_text(value)) for value, _ in most),
    )
