"""Tables of the known answers, as Arrow and back."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

VECTORS = Path(__file__).parents[1] / "vectors" / "ingest"
_SIMPLE = {
    "bool": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    **{
        f"{sign}int{size}": getattr(pa, f"{sign}int{size}")()
        for sign in ("", "u")
        for size in (8, 16, 32, 64)
    },
}


def cases(name: str) -> list[dict[str, Any]]:
    return list(json.loads((VECTORS / f"{name}.json").read_text())["cases"])


def arrow_type(text: str) -> pa.DataType:
    if text in _SIMPLE:
        return _SIMPLE[text]
    if match := re.fullmatch(r"timestamp\[(\w+)(?:,(\w+))?\]", text):
        return pa.timestamp(match[1], match[2])
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", text):
        precision, scale = int(match[1]), int(match[2])
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    if match := re.fullmatch(r"list<(.*)>", text):
        return pa.list_(_nested("item", match[1]))
    if match := re.fullmatch(r"struct<(.*)>", text):
        return pa.struct([_nested(*member.split(":", 1)) for member in _members(match[1])])
    raise AssertionError(f"unknown type {text}")


def _nested(name: str, text: str) -> pa.Field:
    return pa.field(name, arrow_type(text.removesuffix("?")), text.endswith("?"))


def _members(text: str) -> list[str]:
    """Split at the commas that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def type_text(wanted: pa.DataType) -> str:
    for name, simple in _SIMPLE.items():
        if wanted == simple:
            return name
    if pa.types.is_timestamp(wanted):
        return f"timestamp[{wanted.unit},{wanted.tz}]" if wanted.tz else f"timestamp[{wanted.unit}]"
    if pa.types.is_decimal(wanted):
        return f"decimal({wanted.precision},{wanted.scale})"
    if pa.types.is_list(wanted):
        return f"list<{_nested_text(wanted.value_field)}>"
    if pa.types.is_struct(wanted):
        members = [wanted.field(at) for at in range(wanted.num_fields)]
        return f"struct<{','.join(f'{each.name}:{_nested_text(each)}' for each in members)}>"
    return str(wanted)


def _nested_text(field: pa.Field) -> str:
    return type_text(field.type) + ("?" if field.nullable else "")


def schema_rows(schema: pa.Schema) -> list[dict[str, Any]]:
    return [{"name": f.name, "type": type_text(f.type), "nullable": f.nullable} for f in schema]


def plain(value: Any) -> Any:
    """A value as the answers write it."""
    match value:
        case datetime():
            text = value.strftime("%Y-%m-%dT%H:%M:%S")
            fraction = f".{value.microsecond // 1000:03}" if value.microsecond else ""
            return f"{text}{fraction}Z"
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(member) for name, member in value.items()}
        case _:
            return value


def rows_of(table: pa.Table) -> list[list[Any]]:
    return [[plain(value) for value in row.values()] for row in table.to_pylist()]


def value_from(value: Any, wanted: pa.DataType) -> Any:
    if value is not None and pa.types.is_list(wanted):
        return [value_from(item, wanted.value_type) for item in value]
    if value is not None and pa.types.is_struct(wanted):
        return {name: value_from(part, wanted.field(name).type) for name, part in value.items()}
    if value is not None and pa.types.is_timestamp(wanted):
        return datetime.fromisoformat(value)
    if value is not None and pa.types.is_date(wanted):
        return date.fromisoformat(value)
    if value is not None and pa.types.is_decimal(wanted):
        return Decimal(value)
    return value


def table_from(schema: list[dict[str, Any]], rows: list[list[Any]]) -> pa.Table:
    fields = [pa.field(f["name"], arrow_type(f["type"]), f["nullable"]) for f in schema]
    columns = [
        pa.array([value_from(row[at], field.type) for row in rows], field.type)
        for at, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))
