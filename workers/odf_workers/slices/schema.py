"""The schema of a slice: system columns, then the batch's, checked against the dataset's schema.

Names, order and types must be those of the dataset; nothing is reordered or widened. A column that
the dataset requires may be optional in the batch: the writer checks for nulls.
"""

from __future__ import annotations

import pyarrow as pa

from odf_protocol.arrow_digest import UnsupportedColumn, beginnings
from odf_protocol.chain.state import Vocab
from odf_protocol.source_rules import AS_TEXT

from .frame import BadInputSchema, shorten

MILLIS = pa.timestamp("ms", "UTC")
SHOWN_NAMES = 10
"""Limit of the columns that an error names."""


class IncompatibleSchema(BadInputSchema):
    """The batch's columns differ from the dataset's."""


def check_input(schema: pa.Schema, vocab: Vocab, *, takes_operations: bool) -> None:
    """Check that the batch has no columns that the node adds. Raises `BadInputSchema`."""
    if len(set(vocab.columns)) < len(vocab.columns):
        raise BadInputSchema(
            f"the vocabulary gives two system columns one name: {', '.join(vocab.columns)}"
        )
    reserved = [vocab.offset_column, vocab.system_time_column]
    if not takes_operations:
        reserved.append(vocab.operation_type_column)
    for name in reserved:
        if name in schema.names:
            raise BadInputSchema(
                f"column `{name}` is written by the node and may not be in the batch", column=name
            )
    if vocab.event_time_column in schema.names:
        found = schema.field(vocab.event_time_column).type
        if not (pa.types.is_timestamp(found) or pa.types.is_date(found)):
            raise BadInputSchema(
                f"event time column `{vocab.event_time_column}` must be a date or a timestamp, "
                f"not {found}",
                column=vocab.event_time_column,
                type=str(found),
            )


def slice_schema(batch: pa.Schema, vocab: Vocab, dataset: pa.Schema | None) -> pa.Schema:
    """Return the columns of the slice that is written for a batch with these columns.

    Raises:
        IncompatibleSchema: the dataset has a schema, and this one differs.
        BadInputSchema: a first batch has a column of nulls only, so that its type is unknown.
    """
    system = set(vocab.columns)
    event_time = batch.field(vocab.event_time_column)
    fields = [
        pa.field(vocab.offset_column, pa.int64(), nullable=False),
        pa.field(vocab.operation_type_column, pa.int32(), nullable=False),
        pa.field(vocab.system_time_column, MILLIS, nullable=False),
        event_time.with_nullable(False),
        *[field for field in batch if field.name not in system],
    ]
    if dataset is None:
        for field in fields:
            check_known(field, "declare a schema in the source")
        return pa.schema(fields)
    _check_same(fields, dataset)
    return dataset


def check_known(field: pa.Field, advice: str) -> None:
    """Check that a new column can be stored. `advice` is what to do about a column without values.
    Raises `BadInputSchema`."""
    if holds_null_type(field.type):
        raise BadInputSchema(
            f"column `{field.name}` holds {_unseen(field.type)} only, its type is unknown: "
            f"{advice}",
            column=field.name,
        )
    try:
        beginnings(pa.schema([field]))
    except UnsupportedColumn:
        raise BadInputSchema(
            f"column `{field.name}` is {field.type}, for which there is no logical hash: {AS_TEXT}",
            column=field.name,
            type=str(field.type),
        ) from None


def _unseen(kind: pa.DataType) -> str:
    return "nulls" if pa.types.is_null(kind) else "nulls or empty objects"


def holds_null_type(kind: pa.DataType) -> bool:
    """Whether a part of the values has no type: only nulls were seen, or objects without
    members."""
    if pa.types.is_nested(kind):
        return kind.num_fields == 0 or any(
            holds_null_type(kind.field(at).type) for at in range(kind.num_fields)
        )
    return bool(pa.types.is_null(kind))


def _difference(surplus: list[str], missing: list[str]) -> str:
    def told(what: str, names: list[str]) -> list[str]:
        shown = ", ".join(f"`{shorten(name)}`" for name in names[:SHOWN_NAMES])
        return [f"{what}: {shown}{', …' if names[SHOWN_NAMES:] else ''}"] if names else []

    parts = [*told("new", surplus), *told("missing", missing)]
    return "; ".join(parts) or "the same ones in another order"


def _check_same(fields: list[pa.Field], dataset: pa.Schema) -> None:
    found, wanted = [field.name for field in fields], list(dataset.names)
    if found != wanted:
        surplus = [name for name in found if name not in wanted]
        missing = [name for name in wanted if name not in found]
        raise IncompatibleSchema(
            f"the batch has other columns than the dataset ({_difference(surplus, missing)}): "
            "declare those of the dataset in the source, or add to them with "
            "SetDataSchema or addColumns",
            unknown=surplus,
            missing=missing,
            expected=wanted,
        )
    for field, expected in zip(fields[4:], list(dataset)[4:], strict=True):
        if not same_type(field.type, expected.type):
            raise IncompatibleSchema(
                f"column `{field.name}` is {field.type} in the batch and {expected.type} in the "
                "dataset",
                column=field.name,
            )
    event_time = dataset.field(3).type
    if pa.types.is_date(fields[3].type) != pa.types.is_date(event_time):
        raise IncompatibleSchema(
            f"event time is {fields[3].type} in the batch and {event_time} in the dataset",
            column=fields[3].name,
        )


def same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether types are equal up to layout. A type of nulls alone fits any type; required nested
    parts are checked by value."""
    if pa.types.is_null(found):
        return True
    for one_kind in (is_text, _is_bytes):
        if one_kind(wanted):
            return one_kind(found)
    if _is_list(wanted):
        return _is_list(found) and same_type(found.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(found)
            and same_type(found.key_type, wanted.key_type)
            and same_type(found.item_type, wanted.item_type)
        )
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(found) and _same_members(found, wanted)
    return bool(found == wanted)


def _same_members(found: pa.DataType, wanted: pa.DataType) -> bool:
    ours = [found.field(at) for at in range(found.num_fields)]
    theirs = [wanted.field(at) for at in range(wanted.num_fields)]
    return [f.name for f in ours] == [f.name for f in theirs] and all(
        same_type(one.type, other.type) for one, other in zip(ours, theirs, strict=True)
    )


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind)
    )
