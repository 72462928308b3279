"""Tracing: which rows of the inputs a row of a result was made from.

An engine that keeps rows between iterations traces; its answer names rows by input and offset.
Queries that compute row by row need no such help: the same engine runs over ever fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.instant import Instant


class Role(StrEnum):
    """What an input row did for the traced row."""

    SOURCE = "source"
    """The row gave values."""
    GROUP = "group"
    """The row is a member of the aggregated group."""
    MATCH = "match"
    """The row is the partner in a join."""
    RANK = "rank"
    """The row was compared with others, and gave no value."""


@dataclass(frozen=True, slots=True, order=True)
class Witness:
    """A row of an input. `input` is its position in the request."""

    input: int
    offset: int
    role: Role


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """What is known of a column of an input: a comparison with a value, as filters write them."""

    column: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One earlier iteration: the last offset that it read of each input, and the watermarks of the
    inputs before it; both by position in the request."""

    offsets: Sequence[int]
    watermarks: Sequence[Instant | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A row of the result that is traced."""

    row: pa.Table
    """One row with the columns of the dataset."""
    nth: int = 0
    """How many equal rows its slice has before it. Of equal results, each is traced for one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The answer of an engine. No witnesses means that the row is not a result of these rows."""

    forms: tuple[str, ...] = ()
    """Forms of the steps that keep rows, innermost first."""
    witnesses: tuple[Witness, ...] = ()
    notes: tuple[str, ...] = ()
    """What the engine says about rows that are not there, such as a partner."""


def rows_like(table: pa.Table, wanted: Mapping[str, pa.Scalar]) -> pa.ChunkedArray:
    """Return a mask of the rows that have these values; null is like null, and NaN like NaN."""
    mask = pa.chunked_array([pa.repeat(pa.scalar(True), table.num_rows)])
    for name, value in wanted.items():
        mask = pc.and_(mask, _like(table.column(name), value))
    return mask


def _like(column: pa.ChunkedArray | pa.Array, value: pa.Scalar) -> Any:
    kind = column.type
    if not value.is_valid:
        return pc.is_null(column)
    if pa.types.is_struct(kind):
        parts = [
            _like(pc.struct_field(column, at), value[kind.field(at).name])
            for at in range(kind.num_fields)
        ]
        mask = pc.is_valid(column)
        for part in parts:
            mask = pc.and_(mask, part)
        return mask
    if pa.types.is_nested(kind):
        plain = _plain(value.as_py())
        return pa.array([_plain(each) == plain for each in column.to_pylist()], pa.bool_())
    if pa.types.is_floating(kind) and value.as_py() != value.as_py():
        return pc.fill_null(pc.is_nan(column), False)
    return pc.fill_null(pc.equal(column, value.cast(kind)), False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return "NaN" if value != value else value
