"""Datasets as tables of DataFusion: the changelog as in the files, and views of it.

A table is a folder of links, which is empty while the query is planned.

Encode the rows of an answer: one JSON value, or a file in one of the formats of reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from datafusion import SessionContext

from odf_protocol.columns.stored_values import has_floats
from odf_protocol.sql_text import quoted_name
from odf_storage.datasets.query.messages import Form, QueryTable
from odf_storage.datasets.query.tables import base_name, table_folder
from odf_storage.datasets.read.formats import Format
from odf_storage.datasets.read.formats import encoded as written
from odf_storage.datasets.read.records import values

from ..engines.port.query_size import columns_of, view_sql


def register(context: SessionContext, tables: Sequence[QueryTable], links: Path) -> None:
    """Register the tables, which have no rows yet."""
    for number, table in enumerate(tables):
        base = base_name(table, number)
        columns = columns_of(table)
        context.register_parquet(
            quoted_name(base),
            f"{table_folder(links, number)}/",
            schema=columns,
            parquet_pruning=not has_floats(columns),
        )
        for name, view in table.names.items():
            if name != base:
                rows = context.sql(view_sql(view, table, base, quoted_name))
                context.register_view(quoted_name(name), rows)


def base_names(tables: Sequence[QueryTable]) -> dict[str, int]:
    """Return the names of changelogs in plans, with the number of the table."""
    return {base_name(table, number): number for number, table in enumerate(tables)}


def view_names(tables: Sequence[QueryTable]) -> frozenset[str]:
    return frozenset(name for table in tables for name in table.names)


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
