"""Turn Spark's analysed plan of a query into operators that can be updated from changes.

Each kind of node has a reader in one table, or a reason for its refusal in another. A node that
cannot be updated exactly from changes alone is refused, and the message names an alternative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..spark.catalyst import Catalyst, Node
from .joins import read_as_of, read_join
from .pieces import Part
from .port import StatefulInput
from .query import Limits, Query, Reader
from .rankings import place_of, read_ranking
from .rowwise import (
    read_expand,
    read_filter,
    read_generate,
    read_project,
    read_through,
    read_union,
    read_view,
)
from .windows import read_window

REASONS: Mapping[str, str] = {
    "Distinct": "DISTINCT needs every row ever seen: rank the rows of a key with row_number() "
    "OVER (PARTITION BY key ORDER BY event_time) and keep the first",
    "Deduplicate": "removing duplicates needs every row ever seen: rank the rows of a key with "
    "row_number() and keep the first",
    "GlobalLimit": "LIMIT without a key keeps changing its mind: rank with row_number() and keep "
    "the first rows",
    "LocalLimit": "LIMIT keeps changing its mind: rank with row_number() and keep the first rows",
    "Offset": "OFFSET needs every row ever seen: rank with row_number()",
    "Except": "EXCEPT needs every row ever seen: use a LEFT JOIN within an interval of event time",
    "Intersect": "INTERSECT needs every row ever seen: use a JOIN within an interval of event time",
    "Sample": "samples cannot be repeated: filter by a hash of a key",
    "Pivot": "PIVOT: write one aggregate with FILTER per column, over a window of event time",
    "LocalRelation": "constant tables cannot be joined: make them a dataset",
    "OneRowRelation": "a query has to read one of its inputs",
    "SessionWindow": "session windows grow together when late rows come: use window()",
}


def query_over(
    catalyst: Catalyst,
    inputs: Sequence[StatefulInput],
    temporal: Mapping[str, tuple[str, ...]],
) -> Query:
    """Return a query that is ready to be read, with all readers."""
    return Query(catalyst, inputs, temporal, READERS, REASONS)


def _numbered(query: Query, node: Node, wanted: set[int], limits: Limits) -> Part:
    """Read a `row_number()`: either an as-of join written in plain SQL, or a ranking."""
    if limits.get(place_of(node)) == 1 and place_of(node) not in wanted:
        joined = read_as_of(query, node, wanted)
        if joined is not None:
            return joined
    return read_ranking(query, node, wanted, limits)


READERS: Mapping[str, Reader] = {
    "Project": read_project,
    "Filter": read_filter,
    "Union": read_union,
    "Generate": read_generate,
    "Expand": read_expand,
    "View": read_view,
    "SubqueryAlias": read_through,
    "Sort": read_through,
    "ResolvedHint": read_through,
    "RepartitionByExpression": read_through,
    "Repartition": read_through,
    "Aggregate": read_window,
    "Window": _numbered,
    "Join": read_join,
    "AsOfJoin": read_join,
}
