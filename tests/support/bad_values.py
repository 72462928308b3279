"""Columns with a value that no dataset may store, as Arrow arrays that no builder would make."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

RAW = pa.array([b"good", b"\xff\xfe", "gut für".encode()])
TEXTS = pa.Array.from_buffers(pa.string(), 3, RAW.buffers())
"""The second is no UTF-8."""
STARTS = pa.array([0, 1, 2, 3], pa.int32())
DAYS, INFINITY = 10_000_000, (1 << 63) - 1


def counts(kind: pa.DataType, bad: int) -> pa.Array:
    """A good value, a bad one, none."""
    wide = pa.int64() if kind.bit_width == 64 else pa.int32()
    return pa.array([0, bad, None], wide).view(kind)


UTF8, YEARS, HOURS, DIGITS = "no UTF-8", "years 1 to 9999", "24 hours", "digits"
BAD_COLUMNS: dict[str, tuple[pa.Array, str]] = {
    "text": (TEXTS, UTF8),
    "long text": (TEXTS.cast(pa.large_string()), UTF8),
    "text in a dictionary": (TEXTS.dictionary_encode(), UTF8),
    "text in a struct": (pa.StructArray.from_arrays([TEXTS], ["in"]), UTF8),
    "text in a list": (pa.ListArray.from_arrays(STARTS, TEXTS), UTF8),
    "a day of databases' infinity": (counts(pa.date32(), (1 << 31) - 1), YEARS),
    "a day far off": (counts(pa.date32(), DAYS), YEARS),
    "a day of the year 0": (counts(pa.date32(), -719_163), YEARS),
    "a time of databases' infinity": (counts(pa.timestamp("us"), INFINITY), YEARS),
    "a time of the year 10000": (counts(pa.timestamp("ms", "UTC"), 253_402_300_800_000), YEARS),
    "a time before the year 1": (counts(pa.timestamp("us", "UTC"), -INFINITY), YEARS),
    "a time in a list": (
        pa.ListArray.from_arrays(STARTS, counts(pa.timestamp("us"), INFINITY)),
        YEARS,
    ),
    "74 hours": (counts(pa.time32("ms"), 74 * 3_600_000), HOURS),
    "24 hours in microseconds": (counts(pa.time64("us"), 86_400_000_000), HOURS),
    "a negative time of day": (counts(pa.time64("ns"), -1), HOURS),
    "a decimal of too many digits": (
        pa.Array.from_buffers(
            pa.decimal128(4, 2),
            3,
            [None, pa.py_buffer(np.array([1, 0, 99_999, 0, 2, 0], "<i8"))],
        ),
        DIGITS,
    ),
}
"""By what is wrong: a column whose second of three values is bad, and words of the reason."""
GOOD_ENDS = {
    "days": pa.array([-719_162, 2_932_896], pa.int32()).view(pa.date32()),
    "milliseconds": pa.array([-62_135_596_800_000, 253_402_300_799_999]).view(pa.timestamp("ms")),
    "nanoseconds": pa.array([-INFINITY + 1_000_000, INFINITY]).view(pa.timestamp("ns", "UTC")),
    "times of day": pa.array([0, 86_399_999_999]).view(pa.time64("us")),
    "digits": pa.array(["99.99", "-99.99"]).cast(pa.decimal128(4, 2)),
    "texts": pa.array(["", "\U0001f600\u0000"]),
    "bytes": RAW,
}
"""Values at the ends of what may be stored."""
