"""What a file says and its rows would not: differences between given and stored values.

A type is guessed such that none remain. This comparison of all values is the proof, and names what
a person's choices, or the units of times, take away.

Files that say their types themselves: how much of them is read for a proposal.

Which columns tell rows apart, and which says when a row happened, judged on stored values.

A key makes later rows take the place of earlier ones, so none is taken for which the file gives no
more reason than that its values differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import accumulate, combinations
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import BadInput
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.sources import ReadStepEsriShapefile, ReadStepParquet

from ..client.nodes.limits import one_line
from .columns import is_stored
from .headers import FEWEST_ROWS, MAX_CELLS, NoRecords, Records
from .options import Choices, advice
from .sample import FORMATS, Sample
from .values import keeps

_ZONE = re.compile(r"([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?|[A-Za-z]{1,32}/[\w/+-]{1,64})\s{0,8}$")
ZONE_CHARS = 60
_SHOWN = 40


def differences(
    name: str, given: Sequence[Any], stored: pa.ChunkedArray, *, zoned: bool
) -> Iterator[str]:
    """Yield remarks about one column: the values of its records, as texts or JSON values, and those
    stored, in the same order. Words for no value are given as None; `zoned` means that a person
    says the zone of times without one."""
    if pa.types.is_timestamp(stored.type):
        texts = [one for one in given if isinstance(one, str)]
        if not zoned and not all(_ZONE.search(text[-ZONE_CHARS:]) for text in texts):
            yield f"{name}: times without a zone are taken to be in UTC (--time-zone)"
        return  # the reader tells what it cuts
    odd = (
        (one, kept)
        for one, kept in zip(given, stored.to_pylist(), strict=True)
        if not _is_same(one, kept)
    )
    if (pair := next(odd, None)) is not None:
        one, kept = (one_line(str(each), _SHOWN) for each in pair)
        yield f"{name}: {one!r} in the file becomes {kept!r}"


def _is_same(given: Any, stored: Any) -> bool:
    """Whether a stored value says what the given one says."""
    if given is None or stored is None:
        return given is None and stored is None
    match stored:
        case bool():
            return str(given).lower() == str(stored).lower()
        case str():
            return _is_text(given, stored)
        case int():
            return str(given).strip().lstrip("+") == str(stored) or _number(given) == stored
        case float():
            return math.isnan(stored) or _keeps(given, stored)
        case Decimal():
            return _number(given) == stored
        case datetime() | date():
            return True  # the reader reads all of it, or refuses it
        case dict():
            return isinstance(given, dict) and all(
                _is_same(given.get(key), stored.get(key)) for key in {**given, **stored}
            )
        case list():
            return (
                isinstance(given, list)
                and len(given) == len(stored)
                and all(map(_is_same, given, stored))
            )
    return True


def _is_text(given: Any, stored: str) -> bool:
    return given == stored or not isinstance(given, str) or type(given) is not str


def _number(given: Any) -> Decimal | None:
    try:
        return Decimal(str(given).strip())
    except InvalidOperation:
        return None


def _keeps(given: Any, stored: float) -> bool:
    text = str(given).strip()
    if _number(text) is None:  # of another form, which the reader knows
        return True
    return keeps(text) and float(text) == stored


def parquet_of(sample: Sample, choices: Choices) -> Records:  # noqa: ARG001
    """Return which row groups of a Parquet file are looked at, as many as the limit of cells
    allows. Raises `NoRecords`."""
    if not sample.is_whole:
        raise NoRecords(f"{sample.name} is too long to be looked at: its columns are at its end")
    source = pa.BufferReader(sample.data) if sample.file is None else str(sample.file)
    try:
        with pq.ParquetFile(source) as file:
            facts = file.metadata
            sizes = [facts.row_group(at).num_rows for at in range(facts.num_row_groups)]
            width = max(1, facts.num_columns)
    except (pa.ArrowException, OSError, ValueError) as bad:
        begin = sample.data[:_SHOWN].decode("ascii", "backslashreplace")
        told = f", and begins with {begin!r} (--format)" if sample.data else ""
        raise NoRecords(f"{sample.name} is no Parquet file{told}: {str(bad)[:100]}") from None
    seen = tuple(at for at, rows in enumerate(accumulate(sizes)) if rows * width <= MAX_CELLS)
    whole = len(seen) == len(sizes)
    notes = [] if seen or not sizes else [
        "the rows are too many to be looked at: columns and types are those in the file",
    ]  # fmt: skip
    if FORMATS.get(PurePath(sample.name).suffix.lower(), sample.format) is not sample.format:
        notes.append(
            f"{sample.name} is a Parquet file, whatever its name; later ones are posted as Parquet "
            "(--media-type, or the ending .parquet)"
        )
    from odf_workers.stages.preview import file_columns  # not in the service

    return Records(
        names=(),
        columns=(),
        content=sample.content,
        is_whole=whole,
        step=ReadStepParquet(),
        types=file_columns(ReadStepParquet(), sample.content),
        groups=None if whole else seen,
        notes=tuple(notes),
    )


def stored_form(types: pa.Schema) -> DataSchema | None:
    """Return the columns in which rows of the file can be stored, if that is not its own form:
    durations as counts, and lists and objects that have no hash, or no type, as JSON."""
    if all(is_stored(field.type) for field in types):
        return None
    fields = [
        field
        if is_stored(field.type)
        else field.with_type(pa.int64() if pa.types.is_duration(field.type) else pa.string())
        for field in types
    ]
    return from_arrow(pa.schema([field.with_nullable(True) for field in fields]))


def shapefile_of(sample: Sample, choices: Choices) -> Records:
    """Return how a shapefile is read. Raises `NoRecords`."""
    if not sample.is_whole:
        raise NoRecords(f"{sample.name} is too long to be looked at: an archive is read whole")
    return Records(
        names=(),
        columns=(),
        content=sample.content,
        is_whole=True,
        step=ReadStepEsriShapefile(sub_path=choices.path or None),
    )


KEY_COLUMNS = 8
"""A key of two columns is searched among this number of columns from the left."""
AHEAD = timedelta(days=1)
"""How far ahead of now an event may have happened, by clocks that differ."""
FAR_AHEAD = timedelta(days=366)
"""How far ahead of now a year of two digits may be without a question."""
SHORT_YEARS = "two digits of a year are read as 2000 to 2099"
_SHORT_YEAR = re.compile(r"(?<![yu])(yy|uu)(?![yu])")
_KEY_NAME = re.compile(r"(?i)^(id|key|uuid|guid|_id|row_?id|record_?id)$")
_LIKE_A_KEY = re.compile(r"(?i)(_|^)(id|key|code|uuid|guid|nr|no|number)$|[a-z]I[dD]$")
_CHANGE_NAME = re.compile(r"(?i)^_*(op|operation|action|change(_?type)?|deleted|__op)$")
_TIME_NAME = re.compile(r"(?i)^(event_?time|time|timestamp|date|datetime|day|ts)$|_(time|date|at)$")
_UNTIL_NAME = re.compile(
    r"(?i)(^|_)(to|end|ends|until|expir(y|es|ation)|due|till|birth|born|dob|deadline|valid_?to)(_|$)"
    r"|(end|expiry|birth)_?(date|time)|To$|End$|Until$"
)


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
    said = " ".join(advice("key", name) for name in found)
    shown = ", ".join(found)
    if not is_whole:
        note = f"{shown} tells the first {rows.num_rows:,} rows apart; if all, say {said}"
        return (), [note]
    if set(found) <= set(named) and not changes:
        return found, []
    if rows.num_rows < FEWEST_ROWS:
        few = f"{rows.num_rows} rows are too few to tell a key"
        return (), [f"{few}, so each post adds its rows ({advice('key', 'COLUMN')} takes one)"]
    note = f"each post adds its rows; {shown} tells them apart: {said} if later rows are to take "
    return (), [f"{note}the place of those of the same key"]


def check_key(rows: pa.Table, key: Sequence[str]) -> None:
    """Refuse a key that several rows share, since these would replace each other. Raises
    `UnusableChoice`."""
    for name in key:
        kind = rows.schema.field(name).type
        if not _is_key_type(kind):
            raise BadInput("UnusableChoice", f"{name} is {kind}, which is no key", column=name)
    columns = [rows.column(name).to_pylist() for name in key]
    seen: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(zip(*columns, strict=True), 1):
        if None in row:
            raise BadInput("UnusableChoice", f"row {number} has no value in its key", rows=[number])
        if (before := seen.setdefault(row, number)) != number:
            raise BadInput(
                "UnusableChoice",
                f"rows {before} and {number} have the same key ({', '.join(key)}), as they would "
                "be stored, so that one would take the place of the other; choose more columns, or "
                "--no-key",
                rows=[before, number],
            )


def check_event_time(rows: pa.Table, name: str | None) -> None:
    """Refuse a column without times. Raises `UnusableChoice`."""
    if name is not None and not _is_time(rows.column(name)):
        kind = rows.schema.field(name).type
        raise BadInput("UnusableChoice", f"{name} is {kind}, which is no time", column=name)


def proposed_event_time(rows: pa.Table, now: datetime) -> tuple[str | None, list[str]]:
    """Return the column that says when a row happened, and remarks."""
    usable = [
        name
        for name in rows.column_names
        if _is_time(rows.column(name)) and not rows.column(name).null_count and rows.num_rows
    ]
    likely = [name for name in usable if not _UNTIL_NAME.search(name)]
    # in a file that was exported, when a node wrote the row, and not when it happened
    likely = [name for name in likely if name != "system_time"] or likely
    past = [name for name in likely if not _is_after(rows.column(name), now + AHEAD)]
    notes = [
        f"{name} has times to come, and is not taken for the event time "
        f"({advice('event_time', name)})"
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


def has_short_years(pattern: str | None) -> bool:
    """Whether a pattern of times has years of two digits."""
    return pattern is not None and bool(_SHORT_YEAR.search(pattern))


def are_doubtful(column: pa.ChunkedArray, now: datetime) -> bool:
    """Whether years of two digits become times so far ahead that they may be of another century."""
    return _is_after(column, now + FAR_AHEAD)


def on_short_years(name: str, column: pa.ChunkedArray) -> str:
    """Return the question that such a column asks."""
    latest = pc.max(column).as_py()
    day = latest.date() if isinstance(latest, datetime) else latest
    kind = "Date" if pa.types.is_date(column.type) else "Timestamp"
    return (
        f"{name}: {SHORT_YEARS}, which makes {day} of a text "
        f"({advice('types', f'{name}={kind}')} if that is meant, "
        f"{advice('types', f'{name}=String')} keeps the texts)"
    )


def _is_after(column: pa.ChunkedArray, limit: datetime) -> bool:
    """Whether a time is after the limit."""
    latest = pc.max(column)
    if not latest.is_valid:
        return False
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
