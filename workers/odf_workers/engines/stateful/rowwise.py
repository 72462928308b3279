"""Read nodes that compute rows from single rows: inputs, projections, filters, unions, lists.

Read GROUP BY with a time, after which a group is final, and other keys.

Turn Spark's analysed plan of a query into operators that can be updated from changes.

Each kind of node has a reader in one table, or a reason for its refusal in another. A node that
cannot be updated exactly from changes alone is refused, and the message names an alternative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..port.port import NotIncremental
from ..spark.catalyst import Catalyst, Node, children, expr_id, items, kind, plain, references, walk
from .joins import read_as_of, read_join
from .operators import Clock, FunctionCall, InputClock, Window, call_of
from .query import (
    Limits,
    Query,
    Reader,
    StatefulInput,
    is_place,
    least,
    over,
    place_of,
    place_test,
    read_ranking,
    same,
)
from .times import StateChanges, TimePart, WindowClock, clock_of, known, leaf, time_of


def read_through(query: Query, node: Node, wanted: set[int], limits: Limits) -> TimePart:
    """Skip a node that changes only order or names."""
    return query.read(children(node)[0], wanted, limits)


def read_view(query: Query, node: Node, wanted: set[int], limits: Limits) -> TimePart:
    """Read an input, or an earlier step."""
    given = query.inputs.get(str(node.desc().identifier().table()))
    if given is None:
        return read_through(query, node, wanted, limits)
    query.used.add(given.alias)
    attributes = [each for each in items(node.output()) if expr_id(each) in wanted]
    by_name = {str(each.name()): expr_id(each) for each in items(node.output())}
    vocab = given.vocab
    ledger = {vocab.offset_column, vocab.system_time_column, vocab.operation_type_column}
    clock = InputClock(given.alias)

    def build(changes: StateChanges) -> tuple[Node, list[Node]]:
        columns = [(str(each.name()), each) for each in attributes]
        return leaf(query.catalyst, changes.input(given.alias), columns)

    def ids(*names: str) -> frozenset[int]:
        return frozenset(by_name[name] for name in names if name in by_name)

    return TimePart(
        build=build,
        output=tuple(attributes),
        times=dict.fromkeys(ids(vocab.event_time_column), clock),
        base=clock,
        ledger=ids(*ledger),
        operation=ids(vocab.operation_type_column),
        fixed=ids(vocab.offset_column),
        source=given.alias,
        passes=True,
    )


def read_project(query: Query, node: Node, wanted: set[int], limits: Limits) -> TimePart:
    """Read a projection."""
    listed = _listed(node, wanted)
    below = {
        expr_id(of): limits[expr_id(each)]
        for each in items(node.projectList())
        if expr_id(each) in limits and (of := same(each)) is not None
    }
    need = set().union(*[references(each) for each in listed.values()])
    return query.projected(query.read(node.child(), need, below), listed)


def read_filter(query: Query, node: Node, wanted: set[int], limits: Limits) -> TimePart:
    """Read a filter. A test of a place becomes a limit of the ranking below."""
    asked, rest = dict(limits), []
    for test in query.catalyst.conjuncts(node.condition()):
        place = place_test(test)
        if place is not None and is_place(node.child(), place[0]):
            at, limit, implied = place
            asked[at] = min(limit, asked.get(at, limit))
            if implied:
                continue
        rest.append(test)
    need = wanted.union(*[references(test) for test in rest])
    part = query.read(node.child(), need, asked)
    if not rest:
        return part
    for test in rest:
        query.check_operation(test, part)
    return query.filtered(part, rest)


def read_union(query: Query, node: Node, wanted: set[int], _: Limits) -> TimePart:
    """Read a union of several branches."""
    output = items(node.output())
    places = [at for at, each in enumerate(output) if expr_id(each) in wanted]
    parts, columns = [], []
    for child in children(node):
        attributes = [items(child.output())[at] for at in places]
        parts.append(query.read(child, {expr_id(each) for each in attributes}, {}))
        columns.append(attributes)
    shown = [output[at] for at in places]

    def build(changes: StateChanges) -> tuple[Node, list[Node]]:
        branches = []
        first: list[Node] = []
        for part, attributes in zip(parts, columns, strict=True):
            plan, hidden = part.build(changes)
            branches.append(query.catalyst.project([*attributes, *hidden], plan))
            first = first or hidden
        return query.catalyst.union(branches), first

    def everywhere(name: str, *, every: bool) -> frozenset[int]:
        found = set()
        for place, each in enumerate(shown):
            hits = [
                expr_id(attributes[place]) in getattr(part, name)
                for part, attributes in zip(parts, columns, strict=True)
            ]
            if all(hits) if every else any(hits):
                found.add(expr_id(each))
        return frozenset(found)

    times: dict[int, Clock | WindowClock] = {}
    for place, each in enumerate(shown):
        clocks = [
            part.times.get(expr_id(attributes[place]))
            for part, attributes in zip(parts, columns, strict=True)
        ]
        simple = [c for c in clocks if c is not None and not isinstance(c, WindowClock)]
        if len(simple) == len(clocks):
            times[expr_id(each)] = least(simple)
    return TimePart(
        build=build,
        output=tuple(shown),
        times=times,
        base=least([part.base for part in parts]),
        ledger=everywhere("ledger", every=False),
        operation=everywhere("operation", every=True),
        passes=any(part.passes for part in parts),
    )


def read_generate(query: Query, node: Node, wanted: set[int], limits: Limits) -> TimePart:
    """Read a generator, which makes rows from the lists of a row."""
    made = items(node.generatorOutput())
    need = wanted - {expr_id(each) for each in made} | references(node.generator())
    part = query.read(node.child(), need, limits)
    query.check_operation(node.generator(), part)

    def build(changes: StateChanges) -> tuple[Node, list[Node]]:
        plan, hidden = part.build(changes)
        return node.withNewChildren(query.catalyst.seq([plan])), hidden

    ledger = part.ledger
    if references(node.generator()) & ledger:
        ledger |= {expr_id(each) for each in made}
    return over(part, build, output=(*part.output, *made), fixed=frozenset[int](), ledger=ledger)


def read_expand(query: Query, node: Node, _wanted: set[int], _limits: Limits) -> TimePart:
    """Read the node by which sliding windows and grouping sets make several rows of one."""
    rows = [items(row) for row in items(node.projections())]
    output = items(node.output())
    need = set().union(*[references(e) for row in rows for e in row])
    part = query.read(node.child(), need, {})

    def build(changes: StateChanges) -> tuple[Node, list[Node]]:
        plan, hidden = part.build(changes)
        return query.catalyst.expand(node, hidden, plan), hidden

    times: dict[int, Clock | WindowClock] = {}
    ledger = set()
    for place, each in enumerate(output):
        clocks = {time_of(row[place], part.times) for row in rows}
        if len(clocks) == 1 and (clock := clocks.pop()) is not None:
            times[expr_id(each)] = clock
        if any(references(row[place]) & part.ledger for row in rows):
            ledger.add(expr_id(each))
    operation = part.operation & {expr_id(each) for each in output}
    return TimePart(
        build=build,
        output=tuple(output),
        times=times,
        base=part.base,
        ledger=frozenset(ledger),
        operation=operation,
        passes=part.passes,
    )


def _listed(project: Node, wanted: set[int]) -> dict[int, Node]:
    """Return the wanted columns of a projection, by attribute."""
    return {expr_id(e): e for e in items(project.projectList()) if expr_id(e) in wanted}


def read_window(query: Query, node: Node, wanted: set[int], _: Limits) -> TimePart:
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

    def build(changes: StateChanges) -> tuple[Node, list[Node]]:
        plan, hidden = made(changes)
        return query.catalyst.project([*named, *hidden], plan), hidden

    kept = {expr_id(results[at]): clock for at, clock in enumerate(times) if clock is not None}
    return TimePart(
        build=build,
        output=tuple(each.toAttribute() for each in named),
        times=known({expr_id(each): time_of(each, kept) for each in named}),
        base=part.base,
    )


def _calls(outputs: Sequence[Node]) -> list[tuple[Node, FunctionCall]]:
    """Return the different aggregates in the columns of a result."""
    calls: list[tuple[Node, FunctionCall]] = []
    for found in (node for each in outputs for node in walk(each)):
        if kind(found) == "AggregateExpression" and _index(calls, found) is None:
            calls.append((found, _call(found, len(calls))))
    return calls


def _call(found: Node, at: int) -> FunctionCall:
    call = call_of(found, at)
    if call.from_rows() is None:
        raise NotIncremental(
            f"the aggregate {call.function} depends on the order of rows: use "
            "count, sum, avg, min, max, min_by, max_by or collect_list"
        )
    return call


def _index(calls: Sequence[tuple[Node, FunctionCall]], found: Node) -> int | None:
    for at, (each, _) in enumerate(calls):
        if each.semanticEquals(found):
            return at
    return None


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


def _numbered(query: Query, node: Node, wanted: set[int], limits: Limits) -> TimePart:
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
