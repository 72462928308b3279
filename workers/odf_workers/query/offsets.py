"""What offsets in a chain say: how many rows there are, and which slices have the first and last.

Offsets count the rows of a dataset, and a block states those of its slice. So no slice is opened
to count rows, and few are for the newest rows or for a handful.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datafusion import Expr

from odf_storage.datasets.query.messages import QueryTable, Slice

_ROWS = "count(Int64(1))"


@dataclass(frozen=True)
class TableEnd:
    """Slices at one end of a table that have all rows which a part of a plan takes of it."""

    table: int
    slices: list[int]


def number_of_rows(plan: Any, tables: Sequence[QueryTable], names: Mapping[str, int]) -> int | None:
    """Return the number of rows of a table if an optimized plan only counts them, else None."""
    above, counting = plan, plan.to_variant()
    if type(counting).__name__ == "Projection":
        if not all(_is_column(_without_names(each)) for each in counting.projections()):
            return None
        [above] = above.inputs()
        counting = above.to_variant()
    if type(counting).__name__ != "Aggregate" or counting.group_by_exprs():
        return None
    if any(each.canonical_name() != _ROWS for each in counting.aggregate_exprs()):
        return None
    scan = _whole_scan(above.inputs()[0], names)
    if scan is None or scan.fetch() is not None:
        return None
    return sum(map(_rows, tables[names[scan.table_name()]].slices))


def end_of_table(
    node: Any, tables: Sequence[QueryTable], names: Mapping[str, int]
) -> TableEnd | None:
    """Return the slices that a node of a plan needs if it takes some rows at one end of a table:
    those with the least or greatest offsets, or just some. None for any other node."""
    variant, newest = node.to_variant(), False
    most = variant.get_fetch_val() if type(variant).__name__ == "Sort" else None
    if most is not None:
        by = variant.sort_exprs()[0]
        scan = _whole_scan(node.inputs()[0], names)
        newest = not by.ascending()
        if scan is None or scan.fetch() is not None or not _is_column(by.expr()):
            return None
        if by.expr().to_variant().name() != tables[names[scan.table_name()]].offset:
            return None
    else:
        scan = _whole_scan(node, names) if type(variant).__name__ == "TableScan" else None
        most = None if scan is None else scan.fetch()
        if scan is None or most is None:
            return None
    number = names[scan.table_name()]
    return TableEnd(number, _holding(most, tables[number].slices, newest=newest))


def _holding(most: int, slices: Sequence[Slice], *, newest: bool) -> list[int]:
    """Return the numbers of the first or newest slices that together have so many rows."""
    found: list[int] = []
    for at in reversed(range(len(slices))) if newest else range(len(slices)):
        if most <= 0:
            break
        found.append(at)
        most -= _rows(slices[at])
    return found


def _rows(one: Slice) -> int:
    return one.end - one.start + 1


def _whole_scan(node: Any, names: Mapping[str, int]) -> Any:
    """Return the scan of a table's changelog, if nothing above it renames a column or leaves out a
    row; else None."""
    variant = node.to_variant()
    match type(variant).__name__:
        case "TableScan" if variant.table_name() in names and not variant.filters():
            return variant
        case "SubqueryAlias":
            return _whole_scan(node.inputs()[0], names)
        case "Projection" if all(map(_is_column, variant.projections())):
            return _whole_scan(node.inputs()[0], names)
    return None


def _without_names(one: Expr) -> Expr:
    while one.variant_name() == "Alias":
        one = one.to_variant().expr()
    return one


def _is_column(one: Expr) -> bool:
    return bool(one.variant_name() == "Column")
