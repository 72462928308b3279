"""Formats of a source's dates and times, if they are not ISO 8601."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from odf_node.protocol.arrow_schema import UnsupportedSchema, from_arrow
from odf_node.protocol.metadata.reading import ReadStep
from odf_node.protocol.metadata.schema import DataTypeOption
from odf_node.protocol.time_patterns import TimePattern, pattern_of

from .text import BadValue


@dataclass(frozen=True, slots=True)
class Forms:
    """Patterns of date columns and of time columns; None means ISO 8601."""

    date: TimePattern | None = None
    timestamp: TimePattern | None = None

    @classmethod
    def of(cls, date_format: str | None, timestamp_format: str | None) -> Forms:
        """Return the formats of a read step. Raises `UnsupportedPattern`."""
        return cls(pattern_of(date_format), pattern_of(timestamp_format))

    def __bool__(self) -> bool:
        return self.date is not None or self.timestamp is not None

    def pattern(self, wanted: pa.DataType) -> TimePattern | None:
        if types.is_date(wanted):
            return self.date
        return self.timestamp if types.is_timestamp(wanted) else None

    def iso(self, texts: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Convert the texts of a column to ISO 8601. Raises `BadValue`."""
        pattern = self.pattern(wanted)
        if pattern is None:
            return texts
        known: dict[str | None, str | None] = {None: None}
        values = texts.to_pylist()
        for index, text in enumerate(values):
            if text not in known:
                try:
                    known[text] = iso_of(pattern, text, wanted)
                except (ValueError, OverflowError):
                    raise BadValue(index, text) from None
        return pa.array([known[text] for text in values], pa.string())

    def kind(self, text: str) -> str | None:
        """Return the type of a text according to the patterns, for inference; None if neither
        fits."""
        for name, pattern in (("date", self.date), ("ms", self.timestamp)):
            try:
                if pattern is not None and pattern.read(text):
                    return name
            except (ValueError, OverflowError):
                continue
        return None


def iso_of(pattern: TimePattern, text: str, wanted: pa.DataType) -> str:
    """Convert a text in the pattern to ISO 8601. Raises `ValueError`."""
    moment = pattern.read(text)
    day = types.is_date(wanted)
    return moment.date().isoformat() if day else moment.isoformat()


PLAIN = Forms()


def forms_of(step: ReadStep) -> Forms:
    """Return the formats of times that a read step declares. Raises `UnsupportedPattern`."""
    return Forms.of(getattr(step, "date_format", None), getattr(step, "timestamp_format", None))


def not_of(wanted: pa.DataType, forms: Forms = PLAIN) -> str:
    """Return the reason why a value does not fit a column: the type, and its format."""
    name = type_name(wanted)
    if (pattern := forms.pattern(wanted)) is not None:
        return f"not a value of type {name} (written as {pattern.text})"
    if types.is_date(wanted):
        return f"not a value of type {name} (written as 2000-01-31; dateFormat takes other forms)"
    if types.is_timestamp(wanted):
        return (
            f"not a value of type {name} (written as 2000-01-31T23:59:59Z; timestampFormat takes "
            "other forms)"
        )
    return f"not a value of type {name}"


def type_name(wanted: pa.DataType) -> str:
    """Return the name of the type in manifests."""
    try:
        named = from_arrow(pa.schema([pa.field("x", wanted)])).fields[0].type
    except UnsupportedSchema:
        return str(wanted)
    named = named.inner if isinstance(named, DataTypeOption) else named
    name = str(type(named).__struct_config__.tag)
    if types.is_decimal(wanted):
        return f"{name}({wanted.precision}, {wanted.scale})"
    return name
