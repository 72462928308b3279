"""Types of an existing dataset's columns, which apply to a source without a schema.

A type applies only if no value of the batch can lose by it: a whole number may become a fraction,
and text may be parsed, but a fraction is not cut to a whole number, and a number does not become a
time. A column that does not fit keeps its inferred type, and is refused later, by the comparison
with the dataset's schema.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from .text import has_text_form


@dataclass(frozen=True, slots=True)
class Known:
    """Columns of the dataset, by their names in the source's files. The event time is not converted
    by these types."""

    fields: Mapping[str, pa.Field]
    event_time: str

    def type_of(self, name: str, found: pa.DataType) -> pa.DataType:
        """Return the type in which to read a column with the inferred type `found`."""
        field = self.fields.get(name)
        if field is None or not fits(found, field.type):
            return found
        wanted = loosened(field.type)
        return found if loosened(found) == wanted else wanted

    def type_of_text(self, name: str, found: pa.DataType) -> pa.DataType:
        """Return the type in which to read a column of texts: the dataset's, except that a time
        does not become a date."""
        field = self.fields.get(name)
        if field is None or not has_text_form(field.type):
            return found
        cut = types.is_timestamp(found) and types.is_date(field.type)
        return found if cut else field.type

    def absent(self, names: Collection[str]) -> list[pa.Field]:
        """Return the dataset's optional columns that are not among the names; none if a name is
        unknown to the dataset, because the batch then has different columns."""
        if any(name not in self.fields and name != self.event_time for name in names):
            return []
        return [
            field.with_name(name).with_type(loosened(field.type))
            for name, field in self.fields.items()
            if name not in names and field.nullable
        ]


def loosened(kind: pa.DataType) -> pa.DataType:
    """Return the type with all parts optional: nulls are counted when rows are written."""
    if types.is_struct(kind):
        members = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, loosened(each.type)) for each in members])
    if types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, loosened(kind.value_type)))
    return kind


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can be read as another without loss."""
    if types.is_null(found) or found == wanted:
        return True
    if types.is_struct(found) and types.is_struct(wanted):
        return _members_fit(found, wanted)
    if _is_list(found) and _is_list(wanted):
        return fits(found.value_type, wanted.value_type)
    return any(one(found) and other(wanted) for one, other in _FITTING)


def _members_fit(found: pa.DataType, wanted: pa.DataType) -> bool:
    theirs = {wanted.field(at).name: wanted.field(at) for at in range(wanted.num_fields)}
    members = [found.field(at) for at in range(found.num_fields)]
    return all(
        member.name in theirs and fits(member.type, theirs[member.name].type) for member in members
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_wide_fraction(kind: pa.DataType) -> bool:
    return bool(types.is_float64(kind) or types.is_decimal(kind))


_FITTING = (
    (_is_text, lambda kind: _is_text(kind) or types.is_temporal(kind) or types.is_decimal(kind)),
    (types.is_integer, _is_number),
    (types.is_floating, _is_wide_fraction),
    (types.is_decimal, types.is_decimal),
    (types.is_date, types.is_timestamp),
    (types.is_timestamp, types.is_timestamp),
)
"""Pairs of an inferred type and a type in which it may be read; values are checked when read."""
