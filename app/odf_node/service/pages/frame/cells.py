"""Texts for cells, types and columns of a table, and the numbers that values are drawn by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import msgspec

from odf_protocol.codec.manifests import to_data
from odf_protocol.metadata.schema import DataSchema

MAX_CELL_CHARS = 120
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that reverse the direction of text, so that a cell would be misread."""
MEASURES: dict[str, Callable[[Any], float]] = {
    **dict.fromkeys(
        ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"), float
    ),
    **dict.fromkeys(("Float16", "Float32", "Float64", "Decimal"), float),
    "Timestamp": lambda text: datetime.fromisoformat(text).timestamp(),
    "Date": lambda text: datetime.combine(date.fromisoformat(text), time(), UTC).timestamp(),
}
"""Functions that map a value to a number, by the kind of its type; times to seconds of Unix."""
NUMBERS = frozenset(MEASURES) - {"Timestamp", "Date"}


def cell_text(value: Any) -> str | None:
    """Return the text of a cell: strings unchanged, other values as JSON, long ones cut; None for
    null."""
    if value is None:
        return None
    is_json = isinstance(value, dict | list | tuple | bool)
    text = msgspec.json.encode(value, enc_hook=str).decode() if is_json else str(value)
    text = _TURNING.sub("\ufffd", text)
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def fields_of(schema: DataSchema | None) -> list[dict[str, Any]]:
    """Return the columns as in JSON: `name`, `type`."""
    return [] if schema is None else list(to_data(schema)["fields"])


def kinds_of(schema: DataSchema | None) -> dict[str, str]:
    """Return the kinds of types by column, without whether they may be null."""
    return kinds_in(fields_of(schema))


def kinds_in(fields: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the kinds of types by column, of columns as in JSON."""
    found = {}
    for field in fields:
        kind = field["type"]
        while kind["kind"] == "Option":
            kind = kind["inner"]
        found[field["name"]] = kind["kind"]
    return found


def column_lines(path: str, kind: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and type of a column, then of its members: `address.city`."""
    yield path, type_text(kind)
    inner = kind
    while "inner" in inner or "itemType" in inner:
        path += "[]" if "itemType" in inner else ""
        inner = inner.get("inner") or inner["itemType"]
    for member in inner.get("fields", ()):
        yield from column_lines(f"{path}.{member['name']}", member["type"])


def type_text(kind: dict[str, Any]) -> str:
    """Return a type in words: `Int32`, `List of String`, `Float64, or null`."""
    name: str = kind["kind"]
    if name == "Option":
        return f"{type_text(kind['inner'])}, or null"
    inner = kind.get("itemType")
    facts = [f"{key} {value}" for key, value in kind.items() if isinstance(value, int | str)]
    told = ", ".join(facts[1:])
    return f"{name} of {type_text(inner)}" if inner else f"{name} ({told})" if told else name
