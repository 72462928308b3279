"""The data and functions that the readers of a query's nodes share.

The readers are given as a table. They call each other only through `Query.read`, so that each
reader knows only its own kind of node.

The interface of stateful queries to the engine's transforms.

    plan = stateful_plan(session, transform, inputs, vocab)       # at definition and at every run
    if plan is not None:
        result = run(plan, new_rows, state=old, new_state=path, output=path, scratch=folder)

with `stateful_plan(SparkSession, Transform, Sequence[StatefulInput], Vocab) -> Plan | None` of
`.plan` and `run(Plan, Sequence[NewRows], *, state: Path | None, new_state: Path, output: Path,
scratch: Path) -> Result` of `.run`.

`stateful_plan` returns None when no row of the result depends on more than one row of an input:
the query is then stateless and not handled here. It raises `NotIncremental` for a query that needs
state which cannot be kept incrementally, and `InvalidQuery` for any other wrong query.

`run` promises: equal requests give equal rows in equal order and equal bytes of state, whatever
the number of cores and partitions; a +C directly follows its −C; only `new_state`, `output` and
`scratch` are written. The caller adds offsets and system time, and stores the latest watermark of
each input (while an input has none, all results are held back).

Read rankings: `row_number() OVER (PARTITION BY … ORDER BY …)`, filtered to the first places.

Of rows with equal order columns, the one with the lower offset is better; with ORDER BY a time DESC
the one with the higher offset. Rows that an operator computed are ordered by their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import OffsetInterval

from ..port.port import InvalidQuery, NotIncremental
from ..spark.catalyst import (
    Catalyst,
    ColumnOrigin,
    Node,
    children,
    expr_id,
    items,
    kind,
    literal,
    origin_of,
    plain,
    references,
    type_of,
)
from .operators import Clock, JoinSide, Least, Operator, Ranking
from .times import Build, StateChanges, TimePart, clock_of, framed, known, leaf, time_of, with_time

__all__ = [
    "SESSION_SETTINGS",
    "Dropped",
    "ForeignState",
    "NewRows",
    "NotIncremental",
    "StatefulInput",
    "StatefulResult",
]

SESSION_SETTINGS = {"spark.sql.join.asofJoin.enabled": "true"}
"""Settings that a session needs to parse and analyse the accepted queries."""


class ForeignState(InvalidQuery):
    """The checkpoint was written for another query; the derivative has to be reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulInput:
    """An input under its alias in the query, with all of its columns, including system columns."""

    alias: str
    schema: pa.Schema
    vocab: Vocab


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """The new rows of one input: the rows of the files within the interval, and the watermark.

    `watermark` is the newest one that the input ever had, even if this run has no new one.
    """

    alias: str
    paths: tuple[Path, ...] = ()
    interval: OffsetInterval | None = None
    watermark: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Numbers of changes of inputs that were dropped, for the log and the response of the job."""

    late: int = 0
    """Appended rows older than the allowed lateness."""
    late_changes: int = 0
    """Retractions and corrections of rows older than the allowed lateness."""
    unmatched: int = 0
    """Retractions and corrections of rows that do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulResult:
    """The result of one run, which has written `output` and `new_state`.

    The output is one Parquet file, even without rows: the operation column (int32) of the given
    vocabulary, then the query's columns in the query's order. Rows are in their final order.
    """

    rows: int
    schema: pa.Schema
    watermark: Instant | None
    dropped: Dropped
    state_rows: int


BOUNDED = ("t", "lt", "rt")
"""Names of time columns that are used only to compute `odf at`."""

Limits = Mapping[int, int]
"""By the attribute of a `row_number()`: how many of the first places the query uses."""
Reader = Callable[["Query", Node, set[int], Limits], TimePart]
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
        self.refused: ColumnOrigin | None = None
        self._readers = readers
        self._reasons = reasons

    def read(self, node: Node, wanted: set[int], limits: Limits) -> TimePart:
        """Read a plan, as far as its wanted attributes need it. Raise `NotIncremental`."""
        try:
            return self._read(node, wanted, limits)
        except NotIncremental:
            self.refused = self.refused or origin_of(node)  # the innermost node with a position
            raise

    def _read(self, node: Node, wanted: set[int], limits: Limits) -> TimePart:
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

    def projected(self, part: TimePart, listed: Mapping[int, Node]) -> TimePart:
        passed = {at: expr_id(of) for at, e in listed.items() if (of := same(e)) is not None}

        def build(changes: StateChanges) -> tuple[Node, list[Node]]:
            plan, hidden = part.build(changes)
            return self.catalyst.project([*listed.values(), *hidden], plan), hidden

        for at, expression in listed.items():
            if at not in passed:
                self.check_operation(expression, part)
        return TimePart(
            build=build,
            output=tuple(each.toAttribute() for each in listed.values()),
            times=known({at: time_of(e, part.times) for at, e in listed.items()}),
            base=part.base,
            ledger=frozenset(at for at, e in listed.items() if references(e) & part.ledger),
            operation=frozenset(at for at, of in passed.items() if of in part.operation),
            fixed=frozenset(at for at, of in passed.items() if of in part.fixed),
            passes=part.passes,
        )

    def filtered(self, part: TimePart, tests: list[Node]) -> TimePart:
        condition = self.catalyst.all_of(tests)

        def build(changes: StateChanges) -> tuple[Node, list[Node]]:
            plan, hidden = part.build(changes)
            return self.catalyst.filter(condition, plan), hidden

        return over(part, build)

    def side(
        self,
        part: TimePart,
        columns: Sequence[tuple[str, Node]],
        *,
        time: str,
        clock: Clock,
        bucket: tuple[str, ...],
    ) -> JoinSide:
        for name, expression in columns:
            if "void" in (of := type_of(expression).simpleString()):
                raise NotIncremental(f"{expression.sql()} is always NULL: give it a type by CAST")
            if "map<" in of:
                raise NotIncremental(
                    f"maps cannot be compared: take what is needed of {expression.sql()} ({name})"
                )

        shown = [(name, e) for name, e in columns if name not in BOUNDED]

        def rows(changes: StateChanges) -> DataFrame:
            return with_time(framed(self.catalyst, part, changes, columns), time, BOUNDED)

        return JoinSide(
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

        def build(changes: StateChanges) -> tuple[Node, list[Node]]:
            return leaf(self.catalyst, changes.made(place), columns)

        return build

    def check_operation(self, expression: Node, part: TimePart) -> None:
        if references(expression) & part.operation:
            self.misuse = (
                "the operation column cannot be computed with here: retractions and corrections "
                "of the inputs are applied for you, so leave it out"
            )


def over(part: TimePart, build: Build | None = None, **changed: object) -> TimePart:
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


def read_ranking(query: Query, node: Node, wanted: set[int], limits: Limits) -> TimePart:
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
    return TimePart(
        build=made,
        output=tuple(each for _, each in results),
        times=kept,
        base=part.base,
        ledger=part.ledger,
        operation=part.operation,
        fixed=part.fixed,
    )


def _ranked_time(
    part: TimePart, partition: Sequence[Node], sorts: Sequence[Node]
) -> tuple[Node, bool]:
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
