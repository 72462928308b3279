"""Convert JSON values to typed batches; a bad value fails its batch or is set aside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..slices.frame import BadRow, Limits
from .chunks import chunks
from .fields_seen import FieldsSeen
from .forms import not_of
from .json_scan import Value, compact_json
from .json_values import AS_DECLARED, Convert, How, Misfit, column_of, converter, doubt_of
from .rejected import Rejected, sifted

Record = tuple[int, dict[str, Any]]
Shape = Callable[[int, Any], dict[str, Any]]
"""Converts a value to a record. Raises `BadRow`."""


def typed_batches(
    values: Iterator[Value],
    schema: pa.Schema,
    limits: Limits,
    rejected: Rejected | None = None,
    shape: Shape = lambda _, record: record,
    *,
    how: How = AS_DECLARED,
    seen: FieldsSeen | None = None,
) -> Iterator[pa.RecordBatch]:
    """Convert values to records, and these to batches. Names of the records' fields are added to
    `seen`. Raises `BadRow`, `TooManyBadRows`."""
    convert = [converter(field.type, column=field.name, how=how) for field in schema]
    for chunk in chunks(values, attrgetter("size")):
        yield from _sifted(chunk, schema, convert, limits, rejected, shape, seen, how)


def _sifted(
    chunk: list[Value],
    schema: pa.Schema,
    convert: list[Convert],
    limits: Limits,
    rejected: Rejected | None,
    shape: Shape,
    seen: FieldsSeen | None,
    how: How,
) -> Iterator[pa.RecordBatch]:
    def batch(start: int, stop: int) -> pa.RecordBatch:
        records = [(line, shape(line, content)) for line, content, _ in chunk[start:stop]]
        made = _batch(records, schema, convert, limits, how)
        if seen is not None:
            seen.note(record for _, record in records)
        return made

    return sifted(len(chunk), batch, rejected, lambda at: _raw(chunk[at].content))


def _raw(value: Any) -> str:
    return value.decode(errors="backslashreplace") if type(value) is bytes else compact_json(value)


def _batch(
    records: list[Record], schema: pa.Schema, convert: list[Convert], limits: Limits, how: How
) -> pa.RecordBatch:
    columns = []
    for field, one in zip(schema, convert, strict=True):
        values = [record.get(field.name) for _, record in records]
        try:
            if field.name in how.json_texts and pa.types.is_string(field.type):
                texts = [None if each is None else compact_json(each) for each in values]
                column = pa.array(texts, field.type)
            else:
                column = column_of(values, field.type, one, how, column=field.name)
        except Misfit as bad:
            raise _bad_value(records[bad.index][0], field, bad.value, how) from None
        if not field.nullable and column.null_count:
            line = records[pc.index(pc.is_null(column), True).as_py()][0]
            raise BadRow("no value in a required column", line=line, column=field.name)
        _check_cells(records, field, column, limits)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_cells(chunk: list[Record], field: pa.Field, column: pa.Array, limits: Limits) -> None:
    if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
        sizes = pc.binary_length(column)
        longest = pc.max(sizes).as_py() or 0
        if longest > limits.cell_bytes:
            line = chunk[pc.index(sizes, longest).as_py()][0]
            limits.check_cell(longest, line=line, column=field.name)


def _bad_value(line: int, field: pa.Field, value: Any, how: How) -> BadRow:
    shown = value if isinstance(value, str) else json.dumps(value)
    reason = doubt_of(value, field.type) or not_of(
        field.type, how.forms, column=field.name, value=value
    )
    return BadRow(reason, line=line, column=field.name, value=shown)
