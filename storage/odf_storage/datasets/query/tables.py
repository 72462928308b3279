"""A dataset as of a block as the tables of a query, the same for every engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import to_data
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeNull,
    DataTypeOption,
    DataTypeTimestamp,
    TimeUnit,
)

from ..read.view import Outline
from .messages import Slice, Table, View


def table_of(
    alias: str,
    plain: View,
    views: Collection[View],
    outline: Outline,
    *,
    takes_back: bool = True,
    **more: Any,
) -> Table:
    """Return the table with views named after `alias`; `more` are the other fields of `Table`.

    `plain` is the view that the name alone means. If no row takes another back (`takes_back`), the
    changelog has the facts.
    """
    names = {alias: plain, **{f"{alias}@{view}": view for view in views}}
    same = {} if takes_back else {View.FACTS: View.CHANGELOG}
    return Table(
        names={name: same.get(view, view) for name, view in names.items()},
        schema=to_data(schema_of(outline)),
        offset=outline.vocab.offset_column,
        operation=outline.vocab.operation_type_column,
        system_time=outline.vocab.system_time_column,
        key=list(outline.key),
        slices=[
            Slice(data.offset_interval.start, data.offset_interval.end)
            for data, _ in outline.slices
        ],
        **more,
    )


def schema_of(outline: Outline) -> DataSchema:
    """Return the schema; before the first schema, the columns that every dataset has.

    Columns are required as the dataset says. If its chain had a schema in the old form, which did
    not record reliably what is required, all but offset, operation and system time may be null.
    """
    if outline.schema is None:
        return _own_columns(outline.vocab)
    if all(each.schema is not None for _, each in outline.schemas):
        return outline.schema
    vocab = outline.vocab
    sure = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    return replace(
        outline.schema,
        fields=tuple(
            field if field.name in sure else replace(field, type=_optional(field.type))
            for field in outline.schema.fields
        ),
    )


def _optional(kind: DataType) -> DataType:
    known = isinstance(kind, DataTypeOption | DataTypeNull)
    return kind if known else DataTypeOption(inner=kind)


def base_name(table: Table, number: int) -> str:
    """Return the table name of the changelog, the first one of several; if it is not a view of the
    query, a name that no query can write."""
    for name, view in table.names.items():
        if view is View.CHANGELOG:
            return name
    return f"?changelog {number}?"


def _own_columns(vocab: Vocab) -> DataSchema:
    utc = DataTypeTimestamp(unit=TimeUnit.Millisecond, timezone="UTC")
    return DataSchema(
        fields=(
            DataField(name=vocab.offset_column, type=DataTypeInt64()),
            DataField(name=vocab.operation_type_column, type=DataTypeInt32()),
            DataField(name=vocab.system_time_column, type=utc),
            DataField(name=vocab.event_time_column, type=utc),
        )
    )
