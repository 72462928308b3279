"""Which values mean to Arrow what they mean to Spark: what has only those needs no engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

_ORDERED = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_timestamp,
    pa.types.is_date,
)
"""Spark has an opinion of its own on NaN, and Arrow none on nested values."""
_EQUAL = (
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_timestamp,
    pa.types.is_date32,
    pa.types.is_decimal128,
)


def orders_alike(kinds: Sequence[pa.DataType]) -> bool:
    """Whether values of these types have one order here and in Spark."""
    return _all_of(kinds, _ORDERED)


def equal_alike(kinds: Sequence[pa.DataType]) -> bool:
    """Whether values of these types are equal here when they are in Spark."""
    return _all_of(kinds, _EQUAL)


def _all_of(kinds: Sequence[pa.DataType], matching: Sequence[Callable[..., bool]]) -> bool:
    return all(any(matches(kind) for matches in matching) for kind in kinds)
