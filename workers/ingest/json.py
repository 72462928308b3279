"""The readers of JSON texts: NdJson, Json, NdGeoJson and GeoJson.

All four give records one by one with their line; one function turns records into typed
batches. Documents are streamed: memory holds one record and one batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from protocol.errors import BadInput
from protocol.metadata.reading import (
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)

from .frame import (
    BATCH_ROWS,
    INFER_ROWS,
    BadRow,
    Frame,
    Limits,
    SubPathNotFound,
    check_names,
)
from .json_scan import JsonScanner, NumberText
from .json_values import Misfit, column_of, converter, infer
from .ndjson_lines import NotAgreed, quick_batches
from .options import check_encoding, check_time_formats

Record = tuple[int, dict[str, Any]]
Records = Callable[[JsonScanner], Iterator[Record]]


def read_ndjson(
    step: ReadStepNdJson, path: Path, schema: pa.Schema | None, limits: Limits
) -> Frame | None:
    """One object after the other, usually one per line."""
    check_encoding(step.encoding)
    check_time_formats(step.date_format, step.timestamp_format)
    frame = _frame(path, schema, limits, _sequence)
    if frame is None or not len(frame.schema):
        return frame
    return Frame(frame.schema, _quick_then_scanned(path, frame.schema, limits))


def read_json(
    step: ReadStepJson, path: Path, schema: pa.Schema | None, limits: Limits
) -> Frame | None:
    """An array of objects, at the root or where `subPath` (dot-separated keys) leads."""
    check_encoding(step.encoding)
    check_time_formats(step.date_format, step.timestamp_format)
    sub_path = step.sub_path or ""

    def records(scanner: JsonScanner) -> Iterator[Record]:
        for depth, key in enumerate(sub_path.split(".") if sub_path else ()):
            _enter(scanner, key, ".".join(sub_path.split(".")[: depth + 1]))
        if scanner.peek() != "[":
            if scanner.value() is None and sub_path:
                raise SubPathNotFound(f"Sub-path not found: {sub_path}")
            raise SubPathNotFound(f"Sub-path does not specify an array: {sub_path or '.'}")
        yield from _array(scanner)
        if not sub_path:
            scanner.end()

    return _frame(path, schema, limits, records)


def read_ndgeojson(
    _: ReadStepNdGeoJson, path: Path, schema: pa.Schema | None, limits: Limits
) -> Frame | None:
    """One `Feature` after the other."""

    def records(scanner: JsonScanner) -> Iterator[Record]:
        return (_feature(line, record) for line, record in _sequence(scanner))

    return _frame(path, schema, limits, records)


def read_geojson(
    _: ReadStepGeoJson, path: Path, schema: pa.Schema | None, limits: Limits
) -> Frame | None:
    """A `FeatureCollection`: a row per feature, properties and `geometry` as its text."""
    return _frame(path, schema, limits, _collection)


def _frame(path: Path, schema: pa.Schema | None, limits: Limits, records: Records) -> Frame | None:
    if path.stat().st_size == 0:
        return None if schema is None else Frame.empty(schema)
    rows = _rows(path, limits, records)
    head = list(islice(rows, INFER_ROWS if schema is None else 1))
    if schema is None:
        if not head:
            return None
        schema = _infer(head)
    check_names(schema.names, limits)
    return Frame(schema, typed_batches(chain(head, rows), schema, limits))


def _quick_then_scanned(path: Path, schema: pa.Schema, limits: Limits) -> Iterator[pa.RecordBatch]:
    """Many lines at a time for as long as that agrees with the scanner, which does the rest."""
    done = 0
    try:
        for batch in quick_batches(path, schema, limits):
            yield batch
            done += batch.num_rows
        return
    except NotAgreed:
        pass
    rows = _rows(path, limits, _sequence)
    yield from typed_batches(islice(rows, done, None), schema, limits)


def _infer(head: list[Record]) -> pa.Schema:
    return infer(record for _, record in head)


def _rows(path: Path, limits: Limits, records: Records) -> Iterator[Record]:
    with path.open("rb") as stream:
        yield from records(JsonScanner(stream, limits))


def typed_batches(
    rows: Iterator[Record], schema: pa.Schema, limits: Limits
) -> Iterator[pa.RecordBatch]:
    convert = [converter(field.type, column=field.name) for field in schema]
    while chunk := list(islice(rows, BATCH_ROWS)):
        columns = []
        for field, one in zip(schema, convert, strict=True):
            values = [record.get(field.name) for _, record in chunk]
            try:
                column = column_of(values, field.type, one)
            except Misfit as bad:
                raise _bad_value(chunk[bad.index][0], field, bad.value) from None
            if not field.nullable and column.null_count:
                line = chunk[pc.index(pc.is_null(column), True).as_py()][0]
                raise BadRow("no value in a required column", line=line, column=field.name)
            _check_cells(chunk, field, column, limits)
            columns.append(column)
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_cells(chunk: list[Record], field: pa.Field, column: pa.Array, limits: Limits) -> None:
    if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
        sizes = pc.binary_length(column)
        longest = pc.max(sizes).as_py() or 0
        if longest > limits.cell_bytes:
            line = chunk[pc.index(sizes, longest).as_py()][0]
            limits.check_cell(longest, line=line, column=field.name)


def _bad_value(line: int, field: pa.Field, value: Any) -> BadRow:
    shown = value if isinstance(value, str) else json.dumps(value)
    return BadRow(f"not a value of type {field.type}", line=line, column=field.name, value=shown)


def _sequence(scanner: JsonScanner) -> Iterator[Record]:
    while scanner.peek():
        yield _record(scanner)


def _array(scanner: JsonScanner) -> Iterator[Record]:
    scanner.take("[")
    if scanner.peek() == "]":
        scanner.take("]")
        return
    while True:
        yield _record(scanner)
        if scanner.peek() != ",":
            break
        scanner.take(",")
    scanner.take("]")


def _record(scanner: JsonScanner) -> Record:
    scanner.peek()
    line = scanner.line
    value = scanner.value()
    if not isinstance(value, dict):
        raise BadRow("a record must be a JSON object", line=line, value=json.dumps(value))
    return line, value


def _enter(scanner: JsonScanner, wanted: str, path: str) -> None:
    """Step to the value of a key of the object that starts here."""
    if scanner.peek() != "{":
        raise SubPathNotFound(f"Sub-path not found: {path}")
    for key in _keys(scanner):
        if key == wanted:
            return
        scanner.value()
    raise SubPathNotFound(f"Sub-path not found: {path}")


def _keys(scanner: JsonScanner) -> Iterator[str]:
    """Keys of an object; the caller consumes each value before asking for the next key."""
    scanner.take("{")
    if scanner.peek() == "}":
        scanner.take("}")
        return
    while True:
        line = scanner.line
        key = scanner.value()
        if type(key) is not str:
            raise BadRow("a key must be text", line=line)
        scanner.take(":")
        yield key
        if scanner.peek() != ",":
            break
        scanner.take(",")
    scanner.take("}")


def _collection(scanner: JsonScanner) -> Iterator[Record]:
    if scanner.peek() != "{":
        raise BadInput("a GeoJson document must be a FeatureCollection")
    kind = None
    features = False
    for key in _keys(scanner):
        if key == "features" and scanner.peek() == "[":
            features = True
            for line, record in _array(scanner):
                yield _feature(line, record)
        else:
            value = scanner.value()
            kind = value if key == "type" else kind
    if kind != "FeatureCollection" or not features:
        raise BadInput("a GeoJson document must be a FeatureCollection with features")
    scanner.end()


def _feature(line: int, record: dict[str, Any]) -> Record:
    properties, geometry = record.get("properties"), record.get("geometry")
    if record.get("type") != "Feature" or not isinstance(properties, dict) or geometry is None:
        raise BadRow("not a Feature with properties and geometry", line=line)
    return line, {**properties, "geometry": compact_json(geometry)}


def compact_json(value: Any) -> str:
    """JSON with keys in alphabetical order and numbers as they came."""
    match value:
        case dict():
            parts = (f"{json.dumps(key)}:{compact_json(value[key])}" for key in sorted(value))
            return "{" + ",".join(parts) + "}"
        case list():
            return "[" + ",".join(map(compact_json, value)) + "]"
        case NumberText():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)
