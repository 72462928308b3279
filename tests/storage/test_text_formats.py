"""Rows as texts, a column at a time: the same as the whole node writes each value."""

from __future__ import annotations

import csv
import io
import math
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from odf_storage.datasets.read.formats import Format, encoded
from odf_storage.datasets.read.records import values

SECOND = 1_700_000_000
TEXTS = [
    "plain",
    'a "quote"',
    "back\\slash",
    "two\nlines",
    "tab\t",
    "\x00",
    "\x1f",
    "\x7f",
    "é😀",
    "",
]
FLOATS = [0.0, -0.0, 0.1, 1 / 3, 1e-7, 5e-324, 1e15, 1e16, -1e22, 1.7e308, 100.0]
FRACTIONS = [0, 1, 999, 1_000, 120_000, 123_456, 999_999, 500_000_000, 123_456_789, 1_000_000]
KINDS = {
    "whole": pa.array([0, -1, 2**63 - 1, None]),
    "unsigned": pa.array([0, 2**64 - 1, None], pa.uint64()),
    "truth": pa.array([True, False, None]),
    "text": pa.array([*TEXTS, None]),
    "plain text": pa.array(["a", "é", "\x7f", "", None], pa.large_string()),
    "view": pa.array([*TEXTS, None], pa.string_view()),
    "number": pa.array([*FLOATS, None]),
    "no number": pa.array([*FLOATS, math.nan, math.inf, -math.inf, None]),
    "narrow number": pa.array([0.1, 1e10, 3.4e38, None], pa.float32()),
    "half": pa.array([0.1, 65504.0, None]).cast(pa.float16()),
    "decimal": pa.array([Decimal("1.50"), Decimal("-0.01"), None]),
    "bytes": pa.array([b"\x00\xff", b"", None]),
    "day": pa.array([0, -1, 20_000, None], pa.date32()),
    "list": pa.array([[1, 2], [], None]),
    "struct": pa.array([{"a": 1, "b": 'x"'}, None]),
    "code": pa.array(["x", "y", "x", None]).dictionary_encode(),
    "nothing": pa.nulls(3),
    **{
        f"instant {unit} {zone} {name}": pa.array([*ticks, None], pa.int64()).cast(
            pa.timestamp(unit, zone)
        )
        for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
        for zone in (None, "UTC", "+02:00")
        for name, ticks in {
            "whole": [0, -size, SECOND * size],
            "mixed": [sign * SECOND * size + part % size for part in FRACTIONS for sign in (1, -1)],
        }.items()
    },
    "instant before 1900": pa.array([-62_135_596_800, 0, None], pa.timestamp("s", "Europe/Berlin")),
    **{
        f"far instant {unit}": pa.array([0, 253_402_300_800 * size, -62_135_596_801 * size]).cast(
            pa.timestamp(unit, "UTC")
        )
        for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6))
    },
}


def written(table: pa.Table, form: Format) -> bytes:
    return b"".join(encoded(table.schema, iter(table.to_batches()), form))


def rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = [values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_json_lines_are_the_encoding_of_each_row(kind: str) -> None:
    column = KINDS[kind]
    table = pa.table({'the "name"': column, "n": pa.array(range(len(column)))})
    encode = msgspec.json.Encoder(enc_hook=str).encode
    assert written(table, Format.NDJSON) == b"".join(encode(row) + b"\n" for row in rows(table))
    whole = b"[\n" + b",\n".join(map(encode, rows(table))) + b"\n]\n"
    assert written(table, Format.JSON) == whole


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("list", "struct")])
def test_cells_of_csv_are_the_values_of_all_formats(kind: str) -> None:
    table = pa.table({"v": KINDS[kind], "n": pa.array(range(len(KINDS[kind])))})
    said = list(csv.reader(io.StringIO(written(table, Format.CSV).decode(), newline="")))[1:]
    given = KINDS[kind].to_pylist() if "number" in kind else [None] * len(said)
    for (cell, _), value, one in zip(said, values(table.column("v")), given, strict=True):
        if one is not None and not math.isfinite(one):
            assert cell == ("NaN" if one != one else str(one))
        elif isinstance(value, bool):
            assert cell == str(value).lower()
        elif isinstance(value, (float, msgspec.Raw)):
            assert cell == msgspec.json.encode(value).decode()
        else:
            assert cell == ("" if value is None else str(value))


def test_an_instant_whose_offset_has_seconds_is_told_in_utc() -> None:
    """Local mean time of Berlin is 53 minutes and 28 seconds ahead."""
    column = pa.array([-62_135_596_800, 0], pa.timestamp("s", "Europe/Berlin"))
    assert values(column) == ["0001-01-01T00:00:00Z", "1970-01-01T01:00:00+01:00"]


@pytest.mark.parametrize("form", [Format.NDJSON, Format.JSON])
def test_rows_without_columns_are_empty_objects(form: Format) -> None:
    batch = pa.table({"n": [1, 2]}).select([]).to_batches()
    table = pa.Table.from_batches(batch, pa.schema([]))
    assert written(table, form).count(b"{}") == sum(each.num_rows for each in batch)


def test_of_two_columns_of_one_name_the_last_counts() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    assert written(table, Format.NDJSON) == b'{"a":"x"}\n'
