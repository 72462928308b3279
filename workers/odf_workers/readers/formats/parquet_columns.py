"""The columns of a Parquet file as they are meant, where their Arrow types do not say it.

Some types are bytes to Arrow and texts to people (ENUM, UUID, INTERVAL). pandas keeps an index of
evenly spaced numbers in the footer alone. Hive and Spark 2 count days before 1582-10-15 in another
calendar, which only the footer tells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from ...slices.schema import BadInputSchema, BadRow

Change = Callable[[pa.Array], pa.Array]
KNOWN_EXTENSIONS = ("arrow.", "geoarrow.")
"""Beginnings of the names of extension types whose stored form says what they mean."""
JULIAN_END_DAY = -141_427
"""The day 1582-10-15, on which the calendars of old and new days begin to agree."""
JULIAN_END_S, ZONES_END_S = JULIAN_END_DAY * 86_400, -2_208_988_800
"""The beginnings of 1582-10-15 and of 1900: before, instants written in a zone may be shifted."""
_SPARK = b"org.apache.spark."
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class RangeIndex:
    """An index of pandas that only the footer has: `start`, `start + step`, … row by row."""

    name: str
    start: int
    step: int

    def rows(self, first: int, count: int) -> pa.Array:
        """Return the values of rows, from the row `first` of the file on."""
        return pa.array(self.start + self.step * np.arange(first, first + count, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The columns of a file, and how the values that Arrow reads become theirs."""

    schema: pa.Schema
    """The columns, a restored index included."""
    changes: Mapping[int, Change] = field(default_factory=dict)
    checks: Mapping[str, Callable[[pa.Array], int | None]] = field(default_factory=dict)
    """By column: the first row whose instant the footer makes doubtful."""
    index: RangeIndex | None = None
    warnings: tuple[str, ...] = ()

    def made(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return rows as they are meant; `first` is the number of the first one in the file."""
        columns = [
            _made(self.changes[at](_plain(column)) if at in self.changes else column, each.type)
            for at, (column, each) in enumerate(zip(batch.columns, self.schema, strict=False))
        ]
        if self.index is not None:
            columns.append(self.index.rows(first, batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def check(self, name: str, column: pa.Array, first: int) -> None:
        """Raise `BadRow` for an instant that may mean another one."""
        check = self.checks.get(name)
        if check is not None and (at := check(column)) is not None:
            raise BadRow(
                f"row {first + at + 1}: a time in the old calendar and zones of Hive and Spark 2, "
                "by the footer of the file (spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED "
                "writes the usual ones)",
                column=name,
            )


def columns_of(
    file: pq.ParquetFile, wanted: Mapping[str, pa.DataType], takes: Callable[[str], bool]
) -> FileColumns:
    """Return the columns of a file. Where the `wanted` type of a column is bytes, they stay; an
    index is restored where a column of its name `takes` it.

    Raises:
        BadInputSchema: a column has a type whose values cannot be read.
    """
    footer = file.metadata.metadata or {}
    fields, changes, checks, warnings = [], {}, {}, []
    leaves = _top_leaves(file)
    for at, found in enumerate(file.schema_arrow):
        leaf = leaves.get(found.name)
        kind, change = _meaning(found, leaf, wanted.get(found.name))
        if warning := _unknown_extension(found):
            warnings.append(warning)
        if types.is_date32(kind) and _is_legacy(footer, b"legacyDateTime"):
            change = _rebased
        if types.is_timestamp(kind) and (check := _check_of_instants(footer, leaf, kind)):
            checks[found.name] = check
        if change is not None:
            changes[at] = change
        fields.append(pa.field(found.name, kind, found.nullable))
    index, said = _index(footer, [each.name for each in fields], takes)
    if index is not None:
        fields.append(pa.field(index.name, pa.int64()))
    warnings += said
    return FileColumns(
        schema=pa.schema(fields),
        changes=changes,
        checks=checks,
        index=index,
        warnings=tuple(warnings),
    )


# --- types ------------------------------------------------------------------------------------


def _top_leaves(file: pq.ParquetFile) -> dict[str, pq.ColumnSchema]:
    """Return the columns that are not nested, by name."""
    every = (file.schema.column(at) for at in range(len(file.schema)))
    return {leaf.path: leaf for leaf in every if leaf.max_repetition_level == 0}


def _meaning(
    found: pa.Field, leaf: pq.ColumnSchema | None, wanted: pa.DataType | None
) -> tuple[pa.DataType, Change | None]:
    """Return the type of a column without its layout in the file, and the conversion to it."""
    kind = found.type.value_type if types.is_dictionary(found.type) else found.type
    if isinstance(kind, pa.BaseExtensionType):
        name, kind = kind.extension_name, kind.storage_type
    else:
        name = ""
    if _is_variant(kind):
        raise BadInputSchema(
            f"column `{found.name}` is a VARIANT: write it as text (JSON), or as columns of its "
            "own",
            column=found.name,
        )
    if wanted is not None and (types.is_binary(wanted) or types.is_fixed_size_binary(wanted)):
        return kind, None
    logical = "" if leaf is None else str(leaf.logical_type).lower()
    converted = "" if leaf is None else str(leaf.converted_type).lower()
    if name == "arrow.uuid" or logical == "uuid":
        return pa.string(), _uuid_text
    if logical == "enum" or converted == "enum":
        return pa.string(), _as_text
    if logical == "interval" or converted == "interval":
        return pa.string(), _interval_text
    if leaf is not None and leaf.physical_type == "INT96" and types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC"), None  # an instant, though no zone is written
    return kind, None


def _is_variant(kind: pa.DataType) -> bool:
    if not types.is_struct(kind):
        return False
    members = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
    return {"metadata", "value"} <= members.keys() <= {"metadata", "value", "typed_value"} and all(
        types.is_binary(members[name]) for name in ("metadata", "value")
    )


def _unknown_extension(found: pa.Field) -> str | None:
    told = (found.metadata or {}).get(b"ARROW:extension:name", b"").decode(errors="replace")
    name = getattr(found.type, "extension_name", told)
    if not name or name.startswith(KNOWN_EXTENSIONS):
        return None
    stored = getattr(found.type, "storage_type", found.type)
    return (
        f"column `{found.name}` has the type {name}, which this node does not know: its values are "
        f"stored in their bare form ({stored})"
    )


def _made(column: pa.Array, kind: pa.DataType) -> pa.Array:
    column = _plain(column)
    return column if column.type == kind else column.cast(kind)


def _plain(column: pa.Array) -> pa.Array:
    """Return the values without their dictionary, and without an extension type."""
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _as_text(column: pa.Array) -> pa.Array:
    """Return bytes as texts, which are judged later."""
    return column.view(pa.large_string() if types.is_large_binary(column.type) else pa.string())


_HEX = np.frombuffer("".join(f"{at:02x}" for at in range(256)).encode(), np.uint8).reshape(256, 2)
_GROUPS = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 16))


def _uuid_text(column: pa.Array) -> pa.Array:
    digits = _HEX[_fixed_bytes(column, 16)]
    parts: list[Any] = []
    for start, stop in _GROUPS:
        parts += [np.full((len(column), 1), ord("-"), np.uint8)] if parts else []
        parts.append(digits[:, start:stop].reshape(len(column), -1))
    text = np.ascontiguousarray(np.concatenate(parts, axis=1))
    made = pa.Array.from_buffers(pa.binary(36), len(column), [None, pa.py_buffer(text)])
    return pc.if_else(column.is_valid(), made.cast(pa.string()), pa.scalar(None, pa.string()))


def _interval_text(column: pa.Array) -> pa.Array:
    """Return months, days and milliseconds as durations of ISO 8601."""
    numbers = np.ascontiguousarray(_fixed_bytes(column, 12)).view("<u4").tolist()
    known = column.is_valid().to_pylist()
    told = (_duration(*each) if valid else None for each, valid in zip(numbers, known, strict=True))
    return pa.array(told, pa.string())


def _duration(months: int, days: int, millis: int) -> str:
    seconds, rest = divmod(millis, 1_000)
    return f"P{months}M{days}DT{seconds}{f'.{rest:03}' if rest else ''}S"


def _fixed_bytes(column: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    content = column.buffers()[1]
    if content is None:
        return np.zeros((len(column), width), np.uint8)
    every = np.frombuffer(content, np.uint8)
    start = column.offset * width
    return every[start : start + len(column) * width].reshape(len(column), width)


# --- pandas -----------------------------------------------------------------------------------


def _index(
    footer: Mapping[bytes, bytes], names: list[str], takes: Callable[[str], bool]
) -> tuple[RangeIndex | None, list[str]]:
    """Return the index that only the footer has, and what is said of one that is not restored."""
    for found in _range_indices(footer):
        name, start, step = found.get("name"), found.get("start"), found.get("step")
        if not (isinstance(start, int) and isinstance(step, int)):
            continue
        if isinstance(name, str) and name and name not in names:
            if takes(name):
                return RangeIndex(name, start, step), []
            said = f"the index `{name}` of pandas, which only the footer of the file has"
            return None, [f"{said}, is not stored: the dataset has no such column"]
        if name is None and (start, step) != (0, 1):
            said = f"the index of pandas ({start}, {start + step}, …) has no name and is not stored"
            return None, [f"{said}: give it a name to store it as a column"]
    return None, []


def _range_indices(footer: Mapping[bytes, bytes]) -> Iterator[Mapping[str, Any]]:
    try:
        said = json.loads(footer.get(b"pandas", b"{}"))
    except ValueError:
        return
    columns = said.get("index_columns") if isinstance(said, dict) else None
    for each in columns if isinstance(columns, list) else ():
        if isinstance(each, dict) and each.get("kind") == "range":
            yield each


# --- old calendars ----------------------------------------------------------------------------


def _is_legacy(footer: Mapping[bytes, bytes], key: bytes) -> bool:
    """Whether Spark reads times of such a file in the old calendar."""
    version = footer.get(_SPARK + b"version", b"")
    return _SPARK + key in footer or (version[:2] in (b"1.", b"2."))


def _check_of_instants(
    footer: Mapping[bytes, bytes], leaf: pq.ColumnSchema | None, kind: pa.DataType
) -> Callable[[pa.Array], int | None] | None:
    is_96 = leaf is not None and leaf.physical_type == "INT96"
    if not _is_legacy(footer, b"legacyINT96" if is_96 else b"legacyDateTime"):
        return None
    zone = footer.get(_SPARK + b"timeZone", b"")
    end_s = JULIAN_END_S if zone in (b"UTC", b"Etc/UTC", b"Z") else ZONES_END_S
    end = max(end_s * _PER_SECOND[kind.unit], -(1 << 63))

    def first(column: pa.Array) -> int | None:
        if not types.is_timestamp(column.type):
            return None
        at = pc.index(pc.less(column.view(pa.int64()), end), True).as_py()
        return None if at < 0 else int(at)

    return first


def _rebased(column: pa.Array) -> pa.Array:
    """Return the days that have the same year, month and day of the month in the new calendar."""
    days = column.cast(pa.int32())
    least = pc.min(days).as_py()
    if least is None or least >= JULIAN_END_DAY:
        return column
    given = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    made = np.where(given < JULIAN_END_DAY, _new_days(given), given).astype(np.int32)
    return pa.array(made, mask=~column.is_valid().to_numpy(zero_copy_only=False)).cast(column.type)


def _new_days(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Convert days of the Julian calendar, counted from 1970-01-01. Source: E. G. Richards,
    "Mapping Time", algorithm F."""
    cycle = days + 2_440_588 + 32_082
    years = (4 * cycle + 3) // 1_461
    rest = cycle - 1_461 * years // 4
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5
    months = 12 * (years - 4_800 + month // 10 - 1_970) + month + 2 - 12 * (month // 10)
    first_days: npt.NDArray[np.int64] = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    return first_days + day
