"""A value of each type for the tests of doors, and the tables of docs/reading.md about them."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from reading_page import PAGE

NS = 1_767_312_245_123_456_789
DIGITS = "1234567890123456789.0123456789"
WIDE = "123456789012345678901234567890123456789012345.25"
MS_TEXT, NS_TEXT = "2026-01-02T00:04:05.123Z", "2026-01-02T00:04:05.123456789Z"
CLOCK = datetime.time(1, 2, 3, 4)
TYPES: dict[str, tuple[Any, Any, Any, Any]] = {
    "`Int64`": (pa.int64(), 2**53 + 1, 2**53 + 1, str(2**53 + 1)),
    "`UInt32`": (pa.uint32(), 2**32 - 1, 2**32 - 1, 2**32 - 1),
    "`UInt64`": (pa.uint64(), 2**64 - 1, 2**64 - 1, str(2**64 - 1)),
    "`Float32`": (pa.float32(), 0.1, 0.1, 0.1),
    "`Float64`, `NaN`": (pa.float64(), float("nan"), "NaN", "NaN"),
    "`Decimal`": (pa.decimal128(38, 10), Decimal(DIGITS), DIGITS, DIGITS),
    "`Decimal` above 38 digits": (pa.decimal256(50, 2), Decimal(WIDE), WIDE, WIDE),
    "`Date`": (pa.date32(), datetime.date(2026, 1, 2), *["2026-01-02"] * 2),
    "`Time` in microseconds": (pa.time64("us"), CLOCK, *["01:02:03.000004"] * 2),
    "`Time` in nanoseconds": (pa.time64("ns"), CLOCK, *["01:02:03.000004"] * 2),
    "`Timestamp` in milliseconds": (pa.timestamp("ms", "UTC"), NS // 10**6, MS_TEXT, MS_TEXT),
    "`Timestamp` in nanoseconds": (pa.timestamp("ns", "UTC"), NS, NS_TEXT, NS_TEXT),
    "`Binary`": (pa.binary(), b"\xff\x00", "_wA=", "ff00"),
    "`Binary` of fixed length": (pa.binary(2), b"\xff\x00", "_wA=", "ff00"),
    "`List`": (pa.list_(pa.int32()), [1, None], *[[1, None]] * 2),
    "`List` of lists": (pa.list_(pa.list_(pa.int32())), [[1]], None, [[1]]),
    "`Struct`": (pa.struct([("x", pa.int32())]), {"x": 1}, *[{"x": 1}] * 2),
}  # fmt: skip
"""By the name on the page: type, value, and the value as OData and MCP say it."""


def table_of(title: str, columns: int) -> dict[str, list[str]]:
    """The cells of a table of the page, by the first of each line."""
    section = PAGE.read_text().partition(f"{title}\n")[2].split("\n##")[0]
    lines = re.findall(r"^\|" + r" (.+?) \|" * columns + "$", section, re.MULTILINE)
    return {name: each for name, *each in lines if set(name) != {"-"}}
