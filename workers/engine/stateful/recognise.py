"""Reads Spark's analysed plan of a query into operators that can be kept up to date.

Every kind of node has a reader in a table or a reason in another; nothing is guessed. What is
not known to be exact from changes alone is refused with a way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from ..port import NotIncremental
from .catalyst import (
    Catalyst,
    Node,
    Origin,
    children,
    expr_id,
    items,
    kind,
    origin_of,
    references,
    type_of,
)
from .clock import Clock, InputClock, Least
from .joins import JoinReader
from .operators import Operator, Side
from .pieces import Build, Changes, Part, framed, leaf, with_time
from .port import StatefulInput
from .rankings import Limits, is_place, place_of, place_test, read_ranking, same
from .times import WindowClock, known, time_of
from .windows import read_window

BOUNDED = ("t", "lt", "rt")
"""Names of times that only `odf at` is made from."""
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


class Recogniser:
    """One query. `operators` are in the order they run; `part` is read from the last step."""

    def __init__(
        self,
        catalyst: Catalyst,
        inputs: Sequence[StatefulInput],
        temporal: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.catalyst = catalyst
        self.operators: list[Operator] = []
        self.used: set[str] = set()
        self.temporal = temporal
        self.misuse: str | None = None
        self.refused: Origin | None = None
        self._inputs = {given.alias: given for given in inputs}
        self._readers: dict[str, Callable[[Node, set[int], Limits], Part]] = {
            "Project": self._project,
            "Filter": self._filter,
            "Union": self._union,
            "Generate": self._generate,
            "Expand": self._expand,
            "View": self._view,
            "SubqueryAlias": self._through,
            "Sort": self._through,
            "ResolvedHint": self._through,
            "RepartitionByExpression": self._through,
            "Repartition": self._through,
            "Aggregate": self._aggregate,
            "Window": self._ranking,
            "Join": self._join,
            "AsOfJoin": self._join,
        }

    def read(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        """A plan, as far as the wanted attributes of it need it."""
        try:
            return self._read(node, wanted, limits)
        except NotIncremental:
            self.refused = self.refused or origin_of(node)  # the innermost that has a place
            raise

    def _read(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        reader = self._readers.get(kind(node))
        if reader is None:
            name = kind(node)
            raise NotIncremental(
                REASONS.get(name, f"{name} cannot be kept up to date from changes")
            )
        if node.subqueries().size():
            raise NotIncremental(
                "subqueries within expressions look at all rows: join within an interval of event "
                "time, or make a derivative of its own"
            )
        return reader(node, wanted, limits)

    def _through(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        return self.read(children(node)[0], wanted, limits)

    def _view(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        given = self._inputs.get(str(node.desc().identifier().table()))
        if given is None:
            return self._through(node, wanted, limits)
        self.used.add(given.alias)
        attributes = [each for each in items(node.output()) if expr_id(each) in wanted]
        by_name = {str(each.name()): expr_id(each) for each in items(node.output())}
        vocab = given.vocab
        ledger = {vocab.offset_column, vocab.system_time_column, vocab.operation_type_column}
        clock = InputClock(given.alias)

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            columns = [(str(each.name()), each) for each in attributes]
            return leaf(self.catalyst, changes.input(given.alias), columns)

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
        )

    def _project(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        listed = listed_of(node, wanted)
        below = {
            expr_id(of): limits[expr_id(each)]
            for each in items(node.projectList())
            if expr_id(each) in limits and (of := same(each)) is not None
        }
        need = set().union(*[references(each) for each in listed.values()])
        return self.projected(self.read(node.child(), need, below), listed)

    def projected(self, part: Part, listed: Mapping[int, Node]) -> Part:
        passed = {at: expr_id(of) for at, e in listed.items() if (of := same(e)) is not None}

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            plan, hidden = part.build(changes)
            return self.catalyst.project([*listed.values(), *hidden], plan), hidden

        for at, expression in listed.items():
            if at not in passed:
                self.check_operation(expression, part)
        return Part(
            build=build,
            output=tuple(each.toAttribute() for each in listed.values()),
            times=known({at: time_of(e, part.times) for at, e in listed.items()}),
            base=part.base,
            ledger=frozenset(at for at, e in listed.items() if references(e) & part.ledger),
            operation=frozenset(at for at, of in passed.items() if of in part.operation),
            fixed=frozenset(at for at, of in passed.items() if of in part.fixed),
        )

    def _filter(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        asked, rest = dict(limits), []
        for test in self.catalyst.conjuncts(node.condition()):
            place = place_test(test)
            if place is not None and is_place(node.child(), place[0]):
                at, limit, implied = place
                asked[at] = min(limit, asked.get(at, limit))
                if implied:
                    continue
            rest.append(test)
        need = wanted.union(*[references(test) for test in rest])
        part = self.read(node.child(), need, asked)
        if not rest:
            return part
        for test in rest:
            self.check_operation(test, part)
        return self.filtered(part, rest)

    def filtered(self, part: Part, tests: list[Node]) -> Part:
        condition = self.catalyst.all_of(tests)

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            plan, hidden = part.build(changes)
            return self.catalyst.filter(condition, plan), hidden

        return _over(part, build)

    def _union(self, node: Node, wanted: set[int], _: Limits) -> Part:
        output = items(node.output())
        places = [at for at, each in enumerate(output) if expr_id(each) in wanted]
        parts, columns = [], []
        for child in children(node):
            attributes = [items(child.output())[at] for at in places]
            parts.append(self.read(child, {expr_id(each) for each in attributes}, {}))
            columns.append(attributes)
        shown = [output[at] for at in places]

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            branches = []
            first: list[Node] = []
            for part, attributes in zip(parts, columns, strict=True):
                plan, hidden = part.build(changes)
                branches.append(self.catalyst.project([*attributes, *hidden], plan))
                first = first or hidden
            return self.catalyst.union(branches), first

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
        )

    def _generate(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        made = items(node.generatorOutput())
        need = wanted - {expr_id(each) for each in made} | references(node.generator())
        part = self.read(node.child(), need, limits)
        self.check_operation(node.generator(), part)

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            plan, hidden = part.build(changes)
            return node.withNewChildren(self.catalyst.seq([plan])), hidden

        over = _over(part, build, output=(*part.output, *made), fixed=frozenset())
        if references(node.generator()) & part.ledger:
            over = _over(over, ledger=over.ledger | {expr_id(each) for each in made})
        return over

    def _expand(self, node: Node, _wanted: set[int], _limits: Limits) -> Part:
        """Sliding windows and grouping sets make several rows of one."""
        rows = [items(row) for row in items(node.projections())]
        output = items(node.output())
        need = set().union(*[references(e) for row in rows for e in row])
        part = self.read(node.child(), need, {})

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            plan, hidden = part.build(changes)
            return self.catalyst.expand(node, hidden, plan), hidden

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
        )

    def _aggregate(self, node: Node, wanted: set[int], _: Limits) -> Part:
        return read_window(self, node, wanted)

    def _ranking(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        if limits.get(place_of(node)) == 1 and place_of(node) not in wanted:
            joined = JoinReader(self).as_of(node, wanted)
            if joined is not None:
                return joined
        return read_ranking(self, node, wanted, limits)

    def _join(self, node: Node, wanted: set[int], _: Limits) -> Part:
        return JoinReader(self).read(node, wanted)

    def side(
        self,
        part: Part,
        columns: Sequence[tuple[str, Node]],
        *,
        time: str,
        clock: Clock,
        bucket: tuple[str, ...],
    ) -> Side:
        for name, expression in columns:
            if "void" in (of := type_of(expression).simpleString()):
                raise NotIncremental(f"{expression.sql()} is always NULL: give it a type by CAST")
            if "map<" in of:
                raise NotIncremental(
                    f"maps cannot be compared: take what is needed of {expression.sql()} ({name})"
                )

        shown = [(name, e) for name, e in columns if name not in BOUNDED]

        def rows(changes: Changes) -> DataFrame:
            frame = with_time(framed(self.catalyst, part, changes, columns), time)
            return frame.drop(*BOUNDED)

        return Side(
            rows=rows,
            columns=tuple(name for name, _ in shown),
            matched=tuple(name for name, e in shown if not references(e) & part.ledger),
            bucket=bucket,
            clock=clock,
        )

    def made(self, operator: Operator, columns: Sequence[tuple[str, Node]]) -> Build:
        """Registers an operator; its result as the leaf of the plan above."""
        self.operators.append(operator)
        place = len(self.operators) - 1

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            return leaf(self.catalyst, changes.made(place), columns)

        return build

    def check_operation(self, expression: Node, part: Part) -> None:
        if references(expression) & part.operation:
            self.misuse = (
                "the operation column cannot be computed with here: retractions and corrections "
                "of the inputs are applied for you, so leave it out"
            )


def _over(part: Part, build: Build | None = None, **changed: object) -> Part:
    return replace(part, build=build or part.build, **changed)  # type: ignore[arg-type]


def listed_of(project: Node, wanted: set[int]) -> dict[int, Node]:
    """The wanted columns of a projection, by attribute."""
    return {expr_id(e): e for e in items(project.projectList()) if expr_id(e) in wanted}


def least(clocks: Sequence[Clock]) -> Clock:
    different = tuple(dict.fromkeys(clocks))
    return different[0] if len(different) == 1 else Least(different)
