"""Find the slices that a query needs, by the conditions its optimized plan pushes down to tables.

The engine pushes a condition below the views of a changelog (state, facts) only if that does not
change the result, so a condition at a table may exclude slices. Plans show subqueries in
expressions only as text, so a query with such a subquery needs all slices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, BinaryIO

import numpy as np
from datafusion import DataFrame, Expr

from odf_protocol.kartothek.predicates import Predicate
from odf_storage.datasets.kartothek.slice_index import own_slice_indices
from odf_storage.datasets.pruning.bounds import bounds_indices
from odf_storage.datasets.pruning.plan import SliceIndex, slices_to_open
from odf_storage.datasets.pruning.predicates import columns_of
from odf_storage.datasets.query.messages import Table

from ..engines.port.views import columns_of as table_columns
from .conditions import both, predicate_of

_SUBQUERY = "Subquery:"
OpenIndex = Callable[[int, str], BinaryIO | None]
"""Opens a file of the index of the table with this number; None if there is none."""


def needed(
    result: DataFrame, tables: Sequence[Table], names: Mapping[str, int], open_index: OpenIndex
) -> dict[int, list[int]]:
    """Return, by number of the table, the numbers of the slices that may have rows of the
    result."""
    plan = result.optimized_logical_plan()
    if any(line.strip() == _SUBQUERY for line in plan.display_indent().splitlines()):
        return {number: list(range(len(table.slices))) for number, table in enumerate(tables)}
    wanted: dict[int, list[Predicate | None]] = {}
    nodes: list[Any] = [plan]
    while nodes:
        node = nodes.pop()
        nodes.extend(node.inputs())
        variant = node.to_variant()
        if type(variant).__name__ == "TableScan" and variant.table_name() in names:
            number = names[variant.table_name()]
            schema = table_columns(tables[number])
            found = [predicate_of(Expr(each), schema) for each in variant.filters()]
            wanted.setdefault(number, []).append(reduce(both, found, None))
    return {
        number: _slices(tables[number], predicates, partial(open_index, number))
        for number, predicates in wanted.items()
    }


def _slices(
    table: Table,
    predicates: Sequence[Predicate | None],
    open_index: Callable[[str], BinaryIO | None],
) -> list[int]:
    """Return the slices that any scan of the table needs."""
    count, schema = len(table.slices), table_columns(table)
    if not count or None in predicates:
        return list(range(count))
    asked = [terms for predicate in predicates for terms in predicate or ()]
    intervals = [(each.start, each.end) for each in table.slices]
    indices: list[SliceIndex] = [
        *bounds_indices(columns_of(asked), schema, table.bounds, table.offset, intervals),
        *own_slice_indices(open_index, table.index, schema),
    ]
    return [int(at) for at in np.flatnonzero(slices_to_open(count, asked, schema, indices))]
