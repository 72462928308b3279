"""Values of partition columns: parses and writes their texts in keys, by column type.

Source: Kartothek dataset format 4, "Partitions".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from math import isnan
from typing import Any

import pyarrow as pa

from .errors import MalformedPartition, UnsupportedColumn
from .types import kind_of

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT = re.compile(
    r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|nan)", re.IGNORECASE | re.ASCII
)
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_BOOLS = {"true": True, "false": False}
_MAX_TEXT = 4096


def value_of(text: str, wanted: pa.DataType, key: str) -> pa.Scalar:
    """Parse the text of a value in a key; `wanted` is the type in the schema file.

    Raises:
        MalformedPartition: the text is not a value of the type.
    """
    try:
        return read_value(text, wanted)
    except ValueError as error:
        shown = text[:100].encode("utf-8", "replace").decode()
        raise MalformedPartition(
            key, f"the partition value {shown!r} is no {wanted}: {error}"
        ) from None


def read_value(text: str, wanted: pa.DataType) -> pa.Scalar:
    """Parse the text of a value of the type. Raises `ValueError`, with the reason."""
    read = _READ.get(kind_of(wanted))
    if read is None:
        raise ValueError("values of this type are not written as text")
    if len(text) > _MAX_TEXT:
        raise ValueError("it is too long")
    try:
        return read(text, wanted)
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowException) as error:
        raise ValueError(str(error)[:200]) from None


def is_partitionable(kind: str) -> bool:
    """Return whether every reader can read values of such columns from keys."""
    return kind in _WRITE


def text_of(value: Any, kind: str) -> str:
    """Return the text of a value for a key, before percent-encoding.

    Raises:
        UnsupportedColumn: null, NaN, or a kind that other readers cannot read from keys.
    """
    write = _WRITE.get(kind)
    if write is None:
        raise UnsupportedColumn(f"a column of kind {kind} cannot be a partition column")
    if value is None or (isinstance(value, float) and isnan(value)):
        raise UnsupportedColumn("a partition column has no null and no NaN")
    return write(value)


def _bool(text: str, wanted: pa.DataType) -> pa.Scalar:
    if text.lower() not in _BOOLS:
        raise ValueError("True or False")
    return pa.scalar(_BOOLS[text.lower()], wanted)


def _integer(text: str, wanted: pa.DataType) -> pa.Scalar:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("digits, perhaps with a sign")
    return pa.scalar(int(text), wanted)


def _float(text: str, wanted: pa.DataType) -> pa.Scalar:
    if _FLOAT.fullmatch(text) is None:
        raise ValueError("no number")
    return pa.scalar(float(text), pa.float64()).cast(wanted)


def _text(text: str, _: pa.DataType) -> pa.Scalar:
    text.encode()  # fails for surrogates, which stand for bytes that are not UTF-8
    return pa.scalar(text, pa.string())


def _binary(text: str, wanted: pa.DataType) -> pa.Scalar:
    return pa.scalar(text.encode("utf-8", "surrogateescape"), wanted)


def _decimal(text: str, wanted: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(text), wanted)


def _date(text: str, _: pa.DataType) -> pa.Scalar:
    day, clock, fraction, zone = _moment(text)
    if zone or clock not in ("", "00:00:00") or fraction:
        raise ValueError("a date has no time of day")
    return pa.scalar(date.fromisoformat(day), pa.date32())


def _timestamp(text: str, wanted: pa.DataType) -> pa.Scalar:
    day, clock, fraction, zone = _moment(text)
    if (wanted.tz is None) != (not zone):
        raise ValueError("a zone where none is, or none where one is")
    utc = zone.replace("Z", "+00:00") or "+00:00"
    second = datetime.fromisoformat(f"{day}T{clock or '00:00:00'}{utc}")
    since = second - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    nanos = (since.days * 86_400 + since.seconds) * 10**9 + int(fraction.ljust(9, "0"))
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[wanted.unit]
    if nanos % unit:
        raise ValueError(f"it is finer than {wanted.unit}")
    return pa.scalar(nanos // unit, pa.int64()).cast(wanted)


def _moment(text: str) -> tuple[str, str, str, str]:
    """Return day, time of day, digits of the fraction, and zone; absent parts are empty."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("not written as 2024-01-02 or 2024-01-02 03:04:05.678901")
    day, clock, fraction, zone = (part or "" for part in match.groups())
    return day, clock, fraction, zone


_READ: dict[str, Callable[[str, pa.DataType], pa.Scalar]] = {
    "bool": _bool,
    "integer": _integer,
    "float": _float,
    "text": _text,
    "binary": _binary,
    "date": _date,
    "decimal": _decimal,
    "timestamp": _timestamp,
    "timestamp with zone": _timestamp,
}


def _written_moment(value: datetime) -> str:
    return value.isoformat(" ")


_WRITE: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "True" if value else "False",
    "integer": str,
    "float": repr,
    "text": str,
    "date": lambda value: value.isoformat(),
    "timestamp": _written_moment,
}
