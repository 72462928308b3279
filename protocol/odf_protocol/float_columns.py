"""Floats in Parquet: writers leave NaN out of the bounds of a column, so floats have no bounds.

Readers order NaN above all numbers and then trust the bounds: a row group whose greatest number is
2 loses its NaN to `x > 3`, and one whose least and greatest number are the same is not read at all.
So this node writes no bounds of floats, and uses those of no other writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def leaves(columns: Iterable[pa.Field]) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the leaf columns of Parquet: the path and the type of each."""
    for column in columns:
        yield from _leaves(column.name, column.type)


def bounded_leaves(columns: Iterable[pa.Field]) -> list[str]:
    """Return the paths of leaf columns that have bounds: all but floats. It is the argument
    `write_statistics` of Arrow's writer."""
    return [path for path, kind in leaves(columns) if not pa.types.is_floating(kind)]


def has_floats(columns: Iterable[pa.Field]) -> bool:
    """Return whether any column is of floats, or has floats inside."""
    return any(pa.types.is_floating(kind) for _, kind in leaves(columns))


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _leaves(f"{path}.{kind.field(at).name}", kind.field(at).type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_nested(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_dictionary(kind):
        yield path, kind.value_type
    else:
        yield path, kind
