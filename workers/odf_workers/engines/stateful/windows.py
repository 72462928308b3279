"""Read GROUP BY with a time, after which a group is final, and other keys."""

from __future__ import annotations

from collections.abc import Sequence

from ..port.port import NotIncremental
from ..spark.catalyst import Node, expr_id, items, kind, plain, references, walk
from .aggregates import Call, call_of
from .operators import Window
from .pieces import Changes, Part
from .query import Limits, Query
from .times import clock_of, known, time_of


def read_window(query: Query, node: Node, wanted: set[int], _: Limits) -> Part:
    """Read a GROUP BY of a time and other keys."""
    grouping = [plain(each) for each in items(node.groupingExpressions())]
    outputs = [e for e in items(node.aggregateExpressions()) if expr_id(e) in wanted]
    need = set().union(*[references(each) for each in (*grouping, *outputs)])
    part = query.read(node.child(), need, {})
    for expression in (*grouping, *outputs):
        query.check_operation(expression, part)
    times = [time_of(each, part.times) for each in grouping]
    place = next((at for at, clock in enumerate(times) if clock is not None), None)
    if place is None:
        raise NotIncremental(
            "groups without an end never become final: GROUP BY window(event_time, '1 hour') "
            "or date_trunc('DAY', event_time), beside other keys"
        )
    calls = _calls(outputs)
    columns = [(f"k{at}", each) for at, each in enumerate(grouping)]
    keys = tuple(name for name, _ in columns)
    for _, call in calls:
        columns += zip(call.names, call.arguments, strict=True)
        if call.where is not None:
            columns.append((call.where, call.condition))
    clock = clock_of(grouping[place], part.times)
    side = query.side(part, columns, time=f"k{place}", clock=clock, bucket=keys)
    operator = Window(sides=(side,), keys=keys, calls=tuple(call for _, call in calls))
    results = [query.catalyst.attribute(f"k{at}", each) for at, each in enumerate(grouping)]
    results += [query.catalyst.attribute(f"a{at}", each) for at, (each, _) in enumerate(calls)]

    def exchange(expression: Node) -> Node | None:
        at = _index(calls, expression) if kind(expression) == "AggregateExpression" else None
        if at is not None:
            return results[len(grouping) + at]
        for at, each in enumerate(grouping):
            if plain(expression).semanticEquals(each):
                return results[at]
        return None

    named = []
    for each in outputs:
        new = query.catalyst.rewritten(each, exchange)
        same = kind(new) == "AttributeReference"
        named.append(query.catalyst.alias(new, str(each.name()), each) if same else new)
    made = query.made(operator, [(str(each.name()), each) for each in results])

    def build(changes: Changes) -> tuple[Node, list[Node]]:
        plan, hidden = made(changes)
        return query.catalyst.project([*named, *hidden], plan), hidden

    kept = {expr_id(results[at]): clock for at, clock in enumerate(times) if clock is not None}
    return Part(
        build=build,
        output=tuple(each.toAttribute() for each in named),
        times=known({expr_id(each): time_of(each, kept) for each in named}),
        base=part.base,
    )


def _calls(outputs: Sequence[Node]) -> list[tuple[Node, Call]]:
    """Return the different aggregates in the columns of a result."""
    calls: list[tuple[Node, Call]] = []
    for found in (node for each in outputs for node in walk(each)):
        if kind(found) == "AggregateExpression" and _index(calls, found) is None:
            calls.append((found, _call(found, len(calls))))
    return calls


def _call(found: Node, at: int) -> Call:
    call = call_of(found, at)
    if call.from_rows() is None:
        raise NotIncremental(
            f"the aggregate {call.function} depends on the order of rows: use "
            "count, sum, avg, min, max, min_by, max_by or collect_list"
        )
    return call


def _index(calls: Sequence[tuple[Node, Call]], found: Node) -> int | None:
    for at, (each, _) in enumerate(calls):
        if each.semanticEquals(found):
            return at
    return None
