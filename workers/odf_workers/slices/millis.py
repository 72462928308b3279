"""Times in the form of slices: in milliseconds UTC, and an event time in every row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.instant import Instant

from .frame import BadRow
from .schema import MILLIS


def to_millis(array: pa.Array) -> pa.Array:
    """Convert a timestamp of any unit and zone to milliseconds UTC, cutting the rest; without a
    zone it is UTC."""
    kind = array.type
    counts = pc.cast(array, pa.timestamp(kind.unit)) if kind.tz is None else array
    utc = pc.cast(pc.cast(counts, pa.int64()), pa.timestamp(kind.unit, "UTC"))
    if kind.unit in ("us", "ns"):
        utc = pc.floor_temporal(utc, unit="millisecond")
    try:
        return pc.cast(utc, MILLIS)
    except pa.ArrowInvalid as bad:
        raise BadRow(f"a time is out of range ({bad})") from None


def is_finer(array: pa.Array) -> bool:
    """Whether a time has digits beyond its milliseconds."""
    per_milli = {"us": 1_000, "ns": 1_000_000}.get(array.type.unit, 1)
    counts = array.view(pa.int64())
    kept = pc.multiply(pc.divide(counts, per_milli), per_milli)
    return pc.any(pc.not_equal(kept, counts)).as_py() is True


def filled(times: pa.Array | pa.ChunkedArray, fallback: Instant) -> pa.Array | pa.ChunkedArray:
    """Replace missing times or days by the fallback."""
    if not times.null_count:
        return times
    value = pa.scalar(fallback.millis, MILLIS).cast(times.type, safe=False)
    return times.fill_null(value)
