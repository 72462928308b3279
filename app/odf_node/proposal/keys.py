"""Which columns tell rows apart, and which says when a row happened, judged on stored values.

A key makes later rows take the place of earlier ones, so none is taken for which the file gives no
more reason than that its values differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput

KEY_COLUMNS = 8
"""A key of two columns is searched among this number of columns from the left."""
AHEAD = timedelta(days=1)
"""How far ahead of now an event may have happened, by clocks that differ."""
_KEY_NAME = re.compile(r"(?i)^(id|key|uuid|guid|_id|row_?id|record_?id)$")
_LIKE_A_KEY = re.compile(r"(?i)(_|^)(id|key|code|uuid|guid|nr|no|number)$|[a-z]I[dD]$")
_CHANGE_NAME = re.compile(r"(?i)^_*(op|operation|action|change(_?type)?|deleted|__op)$")
_TIME_NAME = re.compile(r"(?i)^(event_?time|time|timestamp|date|datetime|day|ts)$|_(time|date|at)$")
_UNTIL_NAME = re.compile(
    r"(?i)(^|_)(to|end|ends|until|expir(y|es|ation)|due|till|birth|born|dob|deadline|valid_?to)(_|$)"
    r"|(end|expiry|birth)_?(date|time)|To$|End$|Until$"
)


class UnusableChoice(BadInput):
    """A key, event time or merge that does not fit the file, or each other."""


def proposed_key(rows: pa.Table, *, is_whole: bool) -> tuple[tuple[str, ...], list[str]]:
    """Return the key, and remarks. One is proposed only if all rows were read."""
    if rows.num_rows < 2:
        return (), []
    usable = [name for name in rows.column_names if _may_be_key(rows.column(name))]
    named = [name for name in usable if _KEY_NAME.search(name)]
    changes = [name for name in rows.column_names if _CHANGE_NAME.search(name)]
    like = [name for name in usable if _LIKE_A_KEY.search(name)]
    others = [name for name in usable if pa.types.is_string(rows.schema.field(name).type)]
    times = [name for name in usable if _is_time(rows.column(name))]
    ordered = [*named, *like, *others, *times]
    alone = [(name,) for name in dict.fromkeys(ordered) if name not in times]
    some = list(dict.fromkeys(ordered))[:KEY_COLUMNS]
    pairs = [pair for pair in combinations(some, 2) if not set(pair) <= set(times)]
    found = next((each for each in (*alone, *pairs) if _tells_apart(rows, each)), None)
    if found is None:
        return (), ["no column tells the rows apart, so each post adds its rows"]
    said = " ".join(f"--key {name}" for name in found)
    shown = ", ".join(found)
    if not is_whole:
        note = f"{shown} tells the first {rows.num_rows:,} rows apart; if all, say {said}"
        return (), [note]
    if set(found) <= set(named) and not changes:
        return found, []
    note = f"each post adds its rows; {shown} tells them apart: {said} if later rows are to take "
    return (), [f"{note}the place of those of the same key"]


def check_key(rows: pa.Table, key: Sequence[str]) -> None:
    """Refuse a key that several rows share, since these would replace each other. Raises
    `UnusableChoice`."""
    for name in key:
        kind = rows.schema.field(name).type
        if not _is_key_type(kind):
            raise UnusableChoice(f"{name} is {kind}, which is no key", column=name)
    columns = [rows.column(name).to_pylist() for name in key]
    seen: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(zip(*columns, strict=True), 1):
        if None in row:
            raise UnusableChoice(f"row {number} has no value in its key", rows=[number])
        if (before := seen.setdefault(row, number)) != number:
            raise UnusableChoice(
                f"rows {before} and {number} have the same key ({', '.join(key)}), as they would "
                "be stored, so that one would take the place of the other; choose more columns, or "
                "--no-key",
                rows=[before, number],
            )


def check_event_time(rows: pa.Table, name: str | None) -> None:
    """Refuse a column without times. Raises `UnusableChoice`."""
    if name is not None and not _is_time(rows.column(name)):
        kind = rows.schema.field(name).type
        raise UnusableChoice(f"{name} is {kind}, which is no time", column=name)


def proposed_event_time(rows: pa.Table, now: datetime) -> tuple[str | None, list[str]]:
    """Return the column that says when a row happened, and remarks."""
    usable = [
        name
        for name in rows.column_names
        if _is_time(rows.column(name)) and not rows.column(name).null_count and rows.num_rows
    ]
    likely = [name for name in usable if not _UNTIL_NAME.search(name)]
    past = [name for name in likely if not _is_ahead(rows.column(name), now)]
    notes = [
        f"{name} has times to come, and is not taken for the event time (--event-time {name})"
        for name in likely
        if name not in past and (_TIME_NAME.search(name) or len(likely) == 1)
    ]
    named = [name for name in past if _TIME_NAME.search(name)]
    if named:
        return named[0], []
    exact = [name for name in past if pa.types.is_timestamp(rows.schema.field(name).type)] or past
    if len(exact) == 1:
        return exact[0], []
    if len(exact) > 1:
        notes.append(f"several columns have times: {', '.join(exact)} (--event-time)")
    return None, notes


def _is_ahead(column: pa.ChunkedArray, now: datetime) -> bool:
    """Whether times are after now."""
    latest = pc.max(column)
    limit = now + AHEAD
    if pa.types.is_date(column.type):
        return bool(latest.cast(pa.int32()).as_py() > (limit.date() - date(1970, 1, 1)).days)
    millis = pc.cast(latest, pa.timestamp("ms", "UTC")).cast(pa.int64()).as_py()
    return bool(millis > (limit - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))


def _may_be_key(column: pa.ChunkedArray) -> bool:
    return _is_key_type(column.type) and not column.null_count


def _is_key_type(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
    )


def _is_time(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_timestamp(column.type) or pa.types.is_date(column.type))


def _tells_apart(rows: pa.Table, names: Sequence[str]) -> bool:
    if len(names) == 1:
        return bool(pc.count_distinct(rows.column(names[0])).as_py() == rows.num_rows)
    groups = rows.select(list(names)).group_by(list(names), use_threads=False).aggregate([])
    return bool(groups.num_rows == rows.num_rows)
