"""Encode the rows of an answer: one JSON value, or a file in one of the formats of reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from odf_storage.datasets.query.messages import Form
from odf_storage.datasets.read.formats import Format
from odf_storage.datasets.read.formats import encoded as written
from odf_storage.datasets.read.records import values

_AS_MADE = msgspec.json.Encoder(enc_hook=str)
_SORTED = msgspec.json.Encoder(enc_hook=str, order="sorted")


def encoded(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], form: Form, *, canonical: bool
) -> Iterator[bytes]:
    """Encode the rows in that form. `canonical` sorts the keys of JSON, and omits blanks."""
    encoder = _SORTED if canonical else _AS_MADE
    match form:
        case Form.AOS | Form.AOA:
            return _list(batches, encoder, named=form is Form.AOS)
        case Form.SOA:
            return _columns(schema, batches, encoder)
        case _:
            return written(schema, batches, Format(form.value))


def _list(
    batches: Iterator[pa.RecordBatch], encoder: msgspec.json.Encoder, *, named: bool
) -> Iterator[bytes]:
    before = b"["
    for batch in batches:
        names = batch.schema.names
        rows = zip(*[values(column, named) for column in batch.columns], strict=True)
        shaped: list[Any] = [
            dict(zip(names, row, strict=True)) if named else list(row) for row in rows
        ]
        if shaped:
            yield before + encoder.encode(shaped)[1:-1]
            before = b","
    yield b"]" if before == b"," else b"[]"


def _columns(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], encoder: msgspec.json.Encoder
) -> Iterator[bytes]:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for batch in batches:
        for name, column in zip(schema.names, batch.columns, strict=True):
            columns[name] += values(column)
    yield encoder.encode(columns)
