"""The data and functions that the readers of a query's nodes share.

The readers are given as a table. They call each other only through `Query.read`, so that each
reader knows only its own kind of node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from ..port.port import NotIncremental
from ..spark.catalyst import (
    Catalyst,
    Node,
    Origin,
    children,
    expr_id,
    kind,
    origin_of,
    references,
    type_of,
)
from .clock import Clock, Least
from .operators import Operator, Side
from .pieces import Build, Changes, Part, framed, leaf, with_time
from .port import StatefulInput
from .times import known, time_of

BOUNDED = ("t", "lt", "rt")
"""Names of time columns that are used only to compute `odf at`."""

Limits = Mapping[int, int]
"""By the attribute of a `row_number()`: how many of the first places the query uses."""
Reader = Callable[["Query", Node, set[int], Limits], Part]
"""Reads a node, as far as the wanted attributes need it. Raises `NotIncremental`."""


class Query:
    """A query while its plan is read. `operators` are in the order in which they run; the part that
    is read last is the result."""

    def __init__(
        self,
        catalyst: Catalyst,
        inputs: Sequence[StatefulInput],
        temporal: Mapping[str, tuple[str, ...]],
        readers: Mapping[str, Reader],
        reasons: Mapping[str, str],
    ) -> None:
        self.catalyst = catalyst
        self.inputs = {given.alias: given for given in inputs}
        self.temporal = temporal
        self.operators: list[Operator] = []
        self.used: set[str] = set()
        self.misuse: str | None = None
        self.refused: Origin | None = None
        self._readers = readers
        self._reasons = reasons

    def read(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        """Read a plan, as far as its wanted attributes need it. Raise `NotIncremental`."""
        try:
            return self._read(node, wanted, limits)
        except NotIncremental:
            self.refused = self.refused or origin_of(node)  # the innermost node with a position
            raise

    def _read(self, node: Node, wanted: set[int], limits: Limits) -> Part:
        reader = self._readers.get(kind(node))
        if reader is None:
            name = kind(node)
            raise NotIncremental(
                self._reasons.get(name, f"{name} cannot be kept up to date from changes")
            )
        if node.subqueries().size():
            raise NotIncremental(
                "subqueries within expressions look at all rows: join within an interval of event "
                "time, or make a derivative of its own"
            )
        return reader(self, node, wanted, limits)

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
            passes=part.passes,
        )

    def filtered(self, part: Part, tests: list[Node]) -> Part:
        condition = self.catalyst.all_of(tests)

        def build(changes: Changes) -> tuple[Node, list[Node]]:
            plan, hidden = part.build(changes)
            return self.catalyst.filter(condition, plan), hidden

        return over(part, build)

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
            return with_time(framed(self.catalyst, part, changes, columns), time, BOUNDED)

        return Side(
            rows=rows,
            columns=tuple(name for name, _ in shown),
            matched=tuple(name for name, e in shown if not references(e) & part.ledger),
            bucket=bucket,
            clock=clock,
        )

    def made(self, operator: Operator, columns: Sequence[tuple[str, Node]]) -> Build:
        """Add an operator. Return its result, as a leaf for the plan above it."""
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


def over(part: Part, build: Build | None = None, **changed: object) -> Part:
    """Return the part with the given fields replaced."""
    return replace(part, build=build or part.build, **changed)  # type: ignore[arg-type]


def same(expression: Node) -> Node | None:
    """Return the attribute that an expression only renames; None for any other expression."""
    if kind(expression) == "Alias":
        expression = children(expression)[0]
    return expression if kind(expression) == "AttributeReference" else None


def least(clocks: Sequence[Clock]) -> Clock:
    """Return the clock that shows the earliest time of these."""
    different = tuple(dict.fromkeys(clocks))
    return different[0] if len(different) == 1 else Least(different)
