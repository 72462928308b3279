"""Convert columns of a data file to the types of the schema file, within one kind of type only."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from odf_protocol.kartothek.errors import TypeConflict, UnsupportedColumn
from odf_protocol.kartothek.types import kind_of, plain


def conflict(found: pa.DataType, wanted: pa.DataType) -> str | None:
    """Return why values of a type cannot be converted to another one; None if they can."""
    try:
        found_kind = kind_of(found)
    except UnsupportedColumn as error:
        return error.message
    wanted_kind = kind_of(wanted)
    if found_kind == "null":
        return None
    if found_kind != wanted_kind:
        return f"it holds {found_kind} ({found}), the schema file says {wanted_kind} ({wanted})"
    if found_kind == "list":
        return conflict(found.value_type, wanted.value_type)
    if found_kind == "map":
        return conflict(found.key_type, wanted.key_type) or conflict(
            found.item_type, wanted.item_type
        )
    if found_kind == "struct":
        return _members_conflict(found, wanted)
    return None


def _members_conflict(found: pa.DataType, wanted: pa.DataType) -> str | None:
    known = {wanted.field(at).name: wanted.field(at).type for at in range(wanted.num_fields)}
    for at in range(found.num_fields):
        member = found.field(at)
        if member.name in known and (reason := conflict(member.type, known[member.name])):
            return f"member {member.name}: {reason}"
    return None


def fitted(column: pa.Array, wanted: pa.DataType, *, name: str, key: str) -> pa.Array:
    """Return the values as the type `wanted`. Raise `TypeConflict` if the column is of another
    kind, or a value does not fit."""
    if column.type == wanted:
        return column
    if (reason := conflict(column.type, wanted)) is not None:
        raise TypeConflict(key, f"column {name[:100]!r}: {reason}")
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    try:
        return column.cast(plain(column.type)).cast(wanted)
    except pa.ArrowException as error:
        shown = str(error)[:200]
        raise TypeConflict(key, f"column {name[:100]!r} is no {wanted}: {shown}") from None


def in_schema(
    batch: pa.RecordBatch, schema: pa.Schema, values: Mapping[str, pa.Scalar], *, key: str
) -> pa.RecordBatch:
    """Return rows of the data file `key` in these columns: `values` from the key take precedence,
    missing columns are null. Raise `TypeConflict`."""
    rows = batch.num_rows
    columns = []
    for field in schema:
        if field.name in values:
            columns.append(pa.repeat(values[field.name], rows))
        elif field.name in batch.schema.names:
            column = batch.column(field.name)
            columns.append(fitted(column, field.type, name=field.name, key=key))
        else:
            columns.append(pa.nulls(rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
