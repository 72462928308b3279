"""Read nodes that compute rows from single rows: inputs, projections, filters, unions, lists."""

from __future__ import annotations

from ..spark.catalyst import Node, children, expr_id, items, references
from .clock import Clock, InputClock
from .pieces import Changes, Part, leaf
from .query import Limits, Query, least, over, same
from .rankings import is_place, place_test
from .times import WindowClock, time_of


def read_through(query: Query, node: Node, wanted: set[int], limits: Limits) -> Part:
    """Skip a node that changes only order or names."""
    return query.read(children(node)[0], wanted, limits)


def read_view(query: Query, node: Node, wanted: set[int], limits: Limits) -> Part:
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

    def build(changes: Changes) -> tuple[Node, list[Node]]:
        columns = [(str(each.name()), each) for each in attributes]
        return leaf(query.catalyst, changes.input(given.alias), columns)

    def ids(*names: str) -> frozenset[int]:
        return frozenset(by_name[name] for name in names if name in by_name)

    return Part(
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


def read_project(query: Query, node: Node, wanted: set[int], limits: Limits) -> Part:
    """Read a projection."""
    listed = _listed(node, wanted)
    below = {
        expr_id(of): limits[expr_id(each)]
        for each in items(node.projectList())
        if expr_id(each) in limits and (of := same(each)) is not None
    }
    need = set().union(*[references(each) for each in listed.values()])
    return query.projected(query.read(node.child(), need, below), listed)


def read_filter(query: Query, node: Node, wanted: set[int], limits: Limits) -> Part:
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


def read_union(query: Query, node: Node, wanted: set[int], _: Limits) -> Part:
    """Read a union of several branches."""
    output = items(node.output())
    places = [at for at, each in enumerate(output) if expr_id(each) in wanted]
    parts, columns = [], []
    for child in children(node):
        attributes = [items(child.output())[at] for at in places]
        parts.append(query.read(child, {expr_id(each) for each in attributes}, {}))
        columns.append(attributes)
    shown = [output[at] for at in places]

    def build(changes: Changes) -> tuple[Node, list[Node]]:
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
    return Part(
        build=build,
        output=tuple(shown),
        times=times,
        base=least([part.base for part in parts]),
        ledger=everywhere("ledger", every=False),
        operation=everywhere("operation", every=True),
        passes=any(part.passes for part in parts),
    )


def read_generate(query: Query, node: Node, wanted: set[int], limits: Limits) -> Part:
    """Read a generator, which makes rows from the lists of a row."""
    made = items(node.generatorOutput())
    need = wanted - {expr_id(each) for each in made} | references(node.generator())
    part = query.read(node.child(), need, limits)
    query.check_operation(node.generator(), part)

    def build(changes: Changes) -> tuple[Node, list[Node]]:
        plan, hidden = part.build(changes)
        return node.withNewChildren(query.catalyst.seq([plan])), hidden

    ledger = part.ledger
    if references(node.generator()) & ledger:
        ledger |= {expr_id(each) for each in made}
    return over(part, build, output=(*part.output, *made), fixed=frozenset[int](), ledger=ledger)


def read_expand(query: Query, node: Node, _wanted: set[int], _limits: Limits) -> Part:
    """Read the node by which sliding windows and grouping sets make several rows of one."""
    rows = [items(row) for row in items(node.projections())]
    output = items(node.output())
    need = set().union(*[references(e) for row in rows for e in row])
    part = query.read(node.child(), need, {})

    def build(changes: Changes) -> tuple[Node, list[Node]]:
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
    return Part(
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
