"""Rows as JSON values of which no client loses a digit: for doors whose clients parse JSON.

As `odf_storage/datasets/read/records.py` writes them, but floats that are no numbers are texts
instead of nulls, and so are whole numbers that JavaScript would round, if that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odf_storage.datasets.read.records import values

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_EXACT = 2**53 - 1
"""The largest whole number that programs in JavaScript read as it is."""
Leaf = Callable[["pa.Array"], list[Any]]


def exact_rows(table: pa.Table, leaf: Leaf) -> list[dict[str, Any]]:
    """Return the rows as objects; `leaf` gives the values of a column without inner ones."""
    columns = [exact(column.combine_chunks(), leaf) for column in table.columns]
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def exact(array: pa.Array, leaf: Leaf) -> list[Any]:
    """Return the values of a column, also those inside of structs, lists and maps."""
    from pyarrow import types

    kind = array.type
    if not types.is_nested(kind):
        return leaf(array)
    there = array.is_valid().to_pylist()
    if types.is_struct(kind):
        inner = [exact(array.field(at), leaf) for at in range(kind.num_fields)]
        names = [kind.field(at).name for at in range(kind.num_fields)]
        rows = zip(*inner, strict=True) if inner else ((),) * len(array)
        told = zip(there, rows, strict=True)
        return [dict(zip(names, row, strict=True)) if is_there else None for is_there, row in told]
    if types.is_map(kind):
        pairs = zip(exact(array.keys, leaf), exact(array.items, leaf), strict=True)
        items = [{"key": key, "value": value} for key, value in pairs]
    else:
        items = exact(array.values, leaf)
    return [items[start:end] if start is not None else None for start, end in _bounds(array)]


def _bounds(array: pa.Array) -> list[tuple[int | None, int | None]]:
    """Return where the items of each list begin and end; None for null."""
    from pyarrow import types

    there = array.is_valid().to_pylist()
    if types.is_fixed_size_list(array.type):
        size, first = array.type.list_size, array.offset
        edges = [(first + at) * size for at in range(len(array) + 1)]
    else:
        edges = array.offsets.to_pylist()
    pairs = zip(there, edges, edges[1:], strict=False)
    return [(start, end) if is_there else (None, None) for is_there, start, end in pairs]


def plain_leaf(array: pa.Array) -> list[Any]:
    """Return the values as JSON, with floats that are no numbers as `NaN`, `INF` and `-INF`."""
    from pyarrow import types

    told = values(array)
    if not types.is_floating(array.type):
        return told
    numbers = array.to_pylist()
    return [
        text if number is None or math.isfinite(number) else _name(number)
        for text, number in zip(told, numbers, strict=True)
    ]


def texts_of_large(array: pa.Array) -> list[Any]:
    """As `plain_leaf`, with large whole numbers as texts."""
    return [
        str(each) if type(each) is int and abs(each) > LARGEST_EXACT else each
        for each in plain_leaf(array)
    ]


def _name(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "INF" if number > 0 else "-INF"
