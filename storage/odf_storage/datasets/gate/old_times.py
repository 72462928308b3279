"""Times of 96 bits in slices, a type that old writers use, and that readers take in two ways.

Some read it as nanoseconds of 64 bits, which end in the year 2262, and make other times of those
beyond; others read all years. A slice with such a time has no rows that all agree on.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.stored_values import Misfit

from ..contents.slices import WINDOW_ROWS

REASON = (
    "a time of 96 bits outside of the years 1677 to 2262, which readers take for different ones"
)
_MICROS = pa.timestamp("us")


def first_ambiguous(file: Any, content: pa.Buffer) -> Misfit | None:
    """Return the first time, column by column, that readers take for different ones."""
    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    roots = dict.fromkeys(
        leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"
    )
    for name in roots:
        other = pq.ParquetFile(pa.BufferReader(content), coerce_int96_timestamp_unit="us")
        windows = (
            each.iter_batches(WINDOW_ROWS, columns=[name], use_threads=False)
            for each in (file, other)
        )
        before = 0
        for short, long in zip(*windows, strict=True):
            if (row := _first_unequal(short.column(0), long.column(0))) is not None:
                shown = str(long.column(0)[row])
                return Misfit(row=before + row, column=name, reason=REASON, value=shown)
            before += short.num_rows
    return None


def _first_unequal(short: pa.Array, long: pa.Array) -> int | None:
    """Return the first row whose times differ, in microseconds; nested ones are compared whole."""
    if not pa.types.is_timestamp(short.type):
        same = short.cast(long.type, safe=False).equals(long)
        return None if same else 0
    floored = pc.floor_temporal(short, unit="microsecond").cast(_MICROS)
    unequal = pc.not_equal(floored, long.cast(_MICROS))
    at = pc.index(unequal, True).as_py()
    return None if at < 0 else int(at)
