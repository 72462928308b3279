"""Timestamps of any unit and zone as the milliseconds in which slices keep times."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from .frame import BadRow
from .schema import MILLIS


def to_millis(array: pa.Array) -> pa.Array:
    """A timestamp of any unit and zone in milliseconds UTC, cut; without zone it is UTC."""
    kind = array.type
    counts = pc.cast(array, pa.timestamp(kind.unit)) if kind.tz is None else array
    utc = pc.cast(pc.cast(counts, pa.int64()), pa.timestamp(kind.unit, "UTC"))
    if kind.unit in ("us", "ns"):
        utc = pc.floor_temporal(utc, unit="millisecond")
    try:
        return pc.cast(utc, MILLIS)
    except pa.ArrowInvalid as bad:
        raise BadRow(f"a time is out of range ({bad})") from None
