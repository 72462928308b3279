"""Read rankings: `row_number() OVER (PARTITION BY … ORDER BY …)`, filtered to the first places.

Of rows with equal order columns, the one with the lower offset is better; with ORDER BY a time DESC
the one with the higher offset. Rows that an operator computed are ordered by their columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T  # noqa: N812

from ..port.port import NotIncremental
from ..spark.catalyst import (
    Node,
    children,
    expr_id,
    items,
    kind,
    literal,
    plain,
    references,
    type_of,
)
from .operators import Ranking
from .pieces import Part
from .query import Limits, Query, same
from .times import clock_of, time_of


def read_ranking(query: Query, node: Node, wanted: set[int], limits: Limits) -> Part:
    """Read a `row_number()` of which the query uses only the first places."""
    asked = items(node.windowExpressions())
    at = expr_id(asked[0])
    if len(asked) != 1 or not is_row_number(asked[0]) or at not in limits:
        raise NotIncremental(
            "of functions OVER (…) only row_number() can be kept up to date, where its first "
            "places are asked for: WHERE place <= 10"
        )
    partition = [plain(each) for each in items(node.partitionSpec())]
    order = items(node.orderSpec())
    sorts = [plain(children(each)[0]) for each in order]
    below = node.child()
    moments = {expr_id(each) for each in items(below.output()) if _is_moment(each)}
    need = (wanted - {at}).union(moments, *[references(e) for e in (*partition, *sorts)])
    part = query.read(below, need, {})
    for expression in (*partition, *sorts):
        query.check_operation(expression, part)
    shown = [each for each in part.output if expr_id(each) in wanted]
    columns = [(f"c{place}", each) for place, each in enumerate(shown)]
    columns += [(f"p{place}", each) for place, each in enumerate(partition)]
    columns += [(f"s{place}", each) for place, each in enumerate(sorts)]
    time, by_time = _ranked_time(part, partition, sorts)
    columns.append(("t", time))
    side = query.side(
        part,
        columns,
        time="t",
        clock=clock_of(time, part.times),
        bucket=tuple(f"p{place}" for place in range(len(partition))),
    )
    descending = bool(order) and _is_descending(order[0])
    timed = bool(order) and time_of(sorts[0], part.times) is not None
    operator = Ranking(
        sides=(side,),
        limit=limits[at],
        order=tuple((f"s{p}", _direction(each)) for p, each in enumerate(order)),
        newest_first=descending and timed,
        visible=at in wanted,
        by_time=by_time,
    )
    results = [(f"c{place}", each) for place, each in enumerate(shown)]
    if at in wanted:
        results.append(("odf place", asked[0].toAttribute()))
    made = query.made(operator, results)
    lasting = {expr_id(each) for each in partition if kind(each) == "AttributeReference"}
    kept = {
        key: value
        for key, value in part.times.items()
        if (timed and not descending) or (by_time and key in lasting)
    }
    return Part(
        build=made,
        output=tuple(each for _, each in results),
        times=kept,
        base=part.base,
        ledger=part.ledger,
        operation=part.operation,
        fixed=part.fixed,
    )


def _ranked_time(part: Part, partition: Sequence[Node], sorts: Sequence[Node]) -> tuple[Node, bool]:
    """Return the time that decides when rows of a ranking are final, and whether all rows of a
    partition have the same time."""
    for each in partition:
        if time_of(each, part.times) is not None:
            return each, True
    for each in sorts:
        if time_of(each, part.times) is not None:
            return each, False
    for each in part.output:
        if expr_id(each) in part.times:
            return each, False
    raise NotIncremental(
        "a ranking needs the event time of its rows, or it has to keep all of them for ever: "
        "select it below the row_number()"
    )


def place_of(node: Node) -> int:
    """Return the attribute of the first function of a window node."""
    return expr_id(items(node.windowExpressions())[0])


def place_test(test: Node) -> tuple[int, int, bool] | None:
    """Read a test like `place <= 3`: return the attribute, the number of places, and whether this
    number implies the test. Return None for any other test."""
    name = kind(test)
    if name not in ("LessThanOrEqual", "LessThan", "EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        return None
    one, other = (_uncast(child) for child in children(test))
    if name.startswith("GreaterThan"):
        one, other, name = other, one, name.replace("Greater", "Less")
    elif name == "EqualTo" and kind(other) == "AttributeReference":
        one, other = other, one
    value = literal(other)
    if kind(one) != "AttributeReference" or isinstance(value, bool) or not isinstance(value, int):
        return None
    limit = value - 1 if name == "LessThan" else value
    return expr_id(one), limit, name != "EqualTo" or limit == 1


def is_place(node: Node, at: int) -> bool:
    """Return whether an attribute is the row number of a ranking below."""
    while True:
        name = kind(node)
        if name == "Window":
            return any(
                expr_id(e) == at and is_row_number(e) for e in items(node.windowExpressions())
            )
        if name == "Project":
            listed = next((e for e in items(node.projectList()) if expr_id(e) == at), None)
            of = None if listed is None else same(listed)
            if of is None:
                return False
            at = expr_id(of)
        elif name not in ("Filter", "SubqueryAlias", "View", "Sort"):
            return False
        node = children(node)[0]


def is_row_number(expression: Node) -> bool:
    window = children(expression)[0]
    return kind(children(window)[0]) == "RowNumber"


def _uncast(expression: Node) -> Node:
    expression = plain(expression)
    return plain(children(expression)[0]) if kind(expression) == "Cast" else expression


def _is_moment(attribute: Node) -> bool:
    return isinstance(type_of(attribute), T.TimestampType | T.DateType | T.StructType)


def _is_descending(order: Node) -> bool:
    return str(order.direction().sql()) == "DESC"


def _direction(order: Node) -> str:
    return f"{order.direction().sql()} {order.nullOrdering().sql()}"
