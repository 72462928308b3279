"""Read joins with equal keys and bounds on the difference of the rows' event times.

Split the condition of a join into keys, bounds on the difference of times, and the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..port.port import NotIncremental
from ..spark.catalyst import Node, children, expr_id, items, kind, option, plain, references, walk
from .operators import AsOfJoin, Clock, IntervalJoin, JoinSide, LaterClock, Least
from .query import Limits, Query
from .times import Build, TimePart, Times, WindowClock, clock_of, linear, time_of

_STRICT = {"LessThan": 1, "LessThanOrEqual": 0, "GreaterThan": 1, "GreaterThanOrEqual": 0}


Key = tuple[Node, Node, bool]
"""Left and right expression, and whether nulls are equal."""


@dataclass(slots=True)
class JoinCondition:
    """A split condition of a join. `lower` and `upper` bound the right less the left of `times`."""

    keys: list[Key] = field(default_factory=list)
    right_only: list[Node] = field(default_factory=list)
    rest: list[Node] = field(default_factory=list)
    times: tuple[Node, Node] | None = None
    lower: int | None = None
    upper: int | None = None


def taken_apart(tests: Iterable[Node], left: TimePart, right: TimePart) -> JoinCondition:
    """Sort the tests of a join between two parts by their purpose."""
    found = JoinCondition()
    for test in tests:
        name = kind(test)
        of = references(test)
        if of <= right.ids():
            found.right_only.append(test)
        elif name in _STRICT and _bounded(found, test, left, right):
            continue
        elif (
            name in ("EqualTo", "EqualNullSafe") and not _key(found, test, left, right)
        ) or name not in ("EqualTo", "EqualNullSafe"):
            found.rest.append(test)
    return found


def _key(found: JoinCondition, test: Node, left: TimePart, right: TimePart) -> bool:
    one, other = (plain(child) for child in children(test))
    if references(one) <= right.ids() and references(other) <= left.ids():
        one, other = other, one
    if not (references(one) <= left.ids() and references(other) <= right.ids()):
        return False
    if not references(one) or not references(other):
        return False
    clocks = (time_of(one, left.times), time_of(other, right.times))
    if found.times is None and all(_is_clock(clock) for clock in clocks):
        found.times, found.lower, found.upper = (one, other), 0, 0
    found.keys.append((one, other, kind(test) == "EqualNullSafe"))
    return True


def _bounded(found: JoinCondition, test: Node, left: TimePart, right: TimePart) -> bool:
    """Return whether the test bounds right time − left time; if so, record the bound."""
    name = kind(test)
    (one, plus_one), (other, plus_other) = (linear(child) for child in children(test))
    if name.startswith("Less"):
        one, plus_one, other, plus_other = other, plus_other, one, plus_one
    # Now: one + plus_one >= other + plus_other, or > if strict.
    strict = _STRICT[name]
    if references(one) <= right.ids() and references(other) <= left.ids():
        pair, lower, upper = (other, one), plus_other - plus_one + strict, None
    elif references(one) <= left.ids() and references(other) <= right.ids():
        pair, lower, upper = (one, other), None, plus_one - plus_other - strict
    else:
        return False
    clocks = (time_of(pair[0], left.times), time_of(pair[1], right.times))
    if not all(_is_clock(clock) for clock in clocks):
        return False
    if found.times is None:
        found.times = pair
    if not all(a.semanticEquals(b) for a, b in zip(found.times, pair, strict=True)):
        return False
    if lower is not None:
        found.lower = lower if found.lower is None else max(lower, found.lower)
    if upper is not None:
        found.upper = upper if found.upper is None else min(upper, found.upper)
    return True


def _is_clock(clock: Clock | WindowClock | None) -> bool:
    return clock is not None and not isinstance(clock, WindowClock)


TYPES = ("Inner", "LeftOuter")
NO_BOUND = (
    "a join needs bounds on event time from both sides, or all rows have to be kept for ever: add "
    "`AND r.event_time BETWEEN l.event_time AND l.event_time + INTERVAL '1' DAY`, or take the "
    "newest row with `ASOF JOIN … MATCH_CONDITION (l.event_time >= r.event_time)`"
)

Columns = list[tuple[str, Node]]


def read_join(query: Query, node: Node, wanted: set[int], _: Limits) -> TimePart:
    """Read a join within an interval of time, or with the newest row not after the left one."""
    return _Joins(query).read(node, wanted)


def read_as_of(query: Query, window: Node, wanted: set[int]) -> TimePart | None:
    """Read an as-of join that is written as a ranking in plain SQL; None for any other ranking."""
    return _Joins(query).as_of(window, wanted)


class _Joins:
    """Reads the joins of one query."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def read(self, node: Node, wanted: set[int]) -> TimePart:
        as_of = kind(node) == "AsOfJoin"
        outer = self._outer(node)
        tests = self._query.catalyst.conjuncts(option(node.condition()))
        if as_of:
            tests.append(plain(node.asOfCondition()))
        left, right, found = self._sides(node, wanted, tests)
        if found.times is None:
            raise NotIncremental(NO_BOUND)
        if as_of:
            if found.lower is not None or found.upper != 0:
                raise NotIncremental(
                    "an as-of join takes the newest row not after: "
                    "MATCH_CONDITION (l.event_time >= r.event_time)"
                )
            return self._as_of(left, right, found, found.times, outer, wanted)
        if found.lower is None or found.upper is None:
            raise NotIncremental(NO_BOUND)
        bounds = (found.lower, found.upper)
        return self._interval(left, right, found, found.times, bounds, outer, wanted)

    def as_of(self, window: Node, wanted: set[int]) -> TimePart | None:
        """Read a ranking that selects the newest of each left row's partners as an as-of join.

        Return None for any other ranking.
        """
        order, partition = items(window.orderSpec()), items(window.partitionSpec())
        if len(order) != 1 or str(order[0].direction().sql()) != "DESC":
            return None
        newest = plain(children(order[0])[0])
        need = wanted.union(*[references(each) for each in (newest, *partition)])
        between, join = [], window.child()
        while kind(join) in ("Project", "SubqueryAlias"):
            if kind(join) == "Project":
                between.append({expr_id(e): e for e in items(join.projectList())})
                need = set().union(*[references(e) for at, e in between[-1].items() if at in need])
            join = children(join)[0]
        if kind(join) != "Join":
            return None
        begun = len(self._query.operators)
        left, right, found = self._sides(
            join, need, self._query.catalyst.conjuncts(option(join.condition()))
        )
        by = {at for each in partition for at in references(each)}
        fits = bool(by & left.fixed) and by <= left.ids()
        fits = fits and found.lower is None and found.upper == 0
        if not fits or found.times is None or not found.times[1].semanticEquals(newest):
            del self._query.operators[begun:]
            return None
        part = self._as_of(left, right, found, found.times, self._outer(join), need)
        for listed in reversed(between):
            known = part.ids()
            part = self._query.projected(
                part, {at: e for at, e in listed.items() if references(e) <= known}
            )
        return part

    def _outer(self, node: Node) -> bool:
        name = str(node.joinType().toString())
        if name not in TYPES:
            raise NotIncremental(
                f"{name} joins cannot be kept up to date: INNER and LEFT can; swap the sides of a "
                "right join, write a full one as the union of two"
            )
        return name == "LeftOuter"

    def _sides(
        self, node: Node, wanted: set[int], tests: list[Node]
    ) -> tuple[TimePart, TimePart, JoinCondition]:
        need = wanted.union(*[references(test) for test in tests])
        parts = []
        for child in children(node):
            own = {expr_id(each) for each in items(child.output())}
            parts.append(self._query.read(child, need & own, {}))
        left, right = parts
        for test in tests:
            self._query.check_operation(test, left)
            self._query.check_operation(test, right)
        found = taken_apart(tests, left, right)
        if found.right_only:
            right = self._query.filtered(right, found.right_only)
        return left, right, found

    def _interval(
        self,
        left: TimePart,
        right: TimePart,
        found: JoinCondition,
        moments: tuple[Node, Node],
        bounds: tuple[int, int],
        outer: bool,
        wanted: set[int],
    ) -> TimePart:
        if found.rest and outer:
            raise NotIncremental(
                "a LEFT JOIN may bound keys and event time, and the right side by itself; filter "
                "the left side below the join"
            )
        lower, upper = bounds
        sides, keys, results = self._columns(left, right, found, moments, wanted)
        operator = IntervalJoin(sides=sides, keys=keys, outer=outer, lower=lower, upper=upper)
        build = self._query.made(operator, results)
        one, other = (side.clock for side in sides)
        times: dict[int, Clock | WindowClock] = {}
        for at in _following(moments[0], left.times):
            times[at] = _both(one, LaterClock(other, -upper))
        if not outer:
            for at in _following(moments[1], right.times):
                times[at] = _both(other, LaterClock(one, lower))
        base = LaterClock(_both(left.base, right.base), -max(upper, -lower, 0))
        part = _part(build, results, left, right, times, base)
        return self._query.filtered(part, found.rest) if found.rest else part

    def _as_of(
        self,
        left: TimePart,
        right: TimePart,
        found: JoinCondition,
        moments: tuple[Node, Node],
        outer: bool,
        wanted: set[int],
    ) -> TimePart:
        if found.rest:
            raise NotIncremental(
                "an as-of join may ask for equal keys, and filter the right side by itself; other "
                "conditions belong into WHERE"
            )
        self._check_temporal(right, found)
        sides, keys, results = self._columns(left, right, found, moments, wanted)
        build = self._query.made(AsOfJoin(sides=sides, keys=keys, outer=outer), results)
        both = _both(sides[0].clock, sides[1].clock)
        times: Times = dict.fromkeys(_following(moments[0], left.times), both)
        return _part(build, results, left, right, times, _both(left.base, right.base))

    def _check_temporal(self, right: TimePart, found: JoinCondition) -> None:
        """Raise `NotIncremental` unless the keys of the join are the declared primary key, if the
        right side has one."""
        name = right.source
        declared = self._query.temporal.get(name) if name is not None else None
        asked = {
            str(each.name()) for _, each, _ in found.keys if kind(each) == "AttributeReference"
        }
        if declared is not None and asked != set(declared):
            raise NotIncremental(
                f"the temporal table {name} has the primary key ({', '.join(declared)}); "
                "the join has to ask for equality of exactly these columns"
            )

    def _columns(
        self,
        left: TimePart,
        right: TimePart,
        found: JoinCondition,
        moments: tuple[Node, Node],
        wanted: set[int],
    ) -> tuple[tuple[JoinSide, ...], tuple[tuple[str, str, bool], ...], Columns]:
        """Return both sides, the pairs of their keys, and the columns of the result."""
        need = wanted.union(*[references(test) for test in found.rest])
        sides: list[JoinSide] = []
        results: Columns = []
        for place, (part, mark) in enumerate(((left, "l"), (right, "r"))):
            shown = [each for each in part.output if expr_id(each) in need]
            own = [(f"{mark}{at}", each) for at, each in enumerate(shown)]
            keys = [(f"{mark}k{at}", pair[place]) for at, pair in enumerate(found.keys)]
            sides.append(
                self._query.side(
                    part,
                    [*own, (f"{mark}t", moments[place]), *keys],
                    time=f"{mark}t",
                    clock=clock_of(moments[place], part.times),
                    bucket=tuple(name for name, _ in keys),
                )
            )
            results += own
        pairs = tuple((f"lk{at}", f"rk{at}", safe) for at, (_, _, safe) in enumerate(found.keys))
        return tuple(sides), pairs, results


def _part(
    build: Build, results: Columns, left: TimePart, right: TimePart, times: Times, base: Clock
) -> TimePart:
    return TimePart(
        build=build,
        output=tuple(each for _, each in results),
        times=times,
        base=base,
        ledger=left.ledger | right.ledger,
        operation=left.operation | right.operation,
    )


def _following(time: Node, times: Times) -> list[int]:
    """Return the columns that are never before the time of the join: that time itself, or the
    column that was truncated to it."""
    time = plain(time)
    if any(kind(part) == "TimestampAddInterval" for part in walk(time)):
        return []
    return [at for at in references(time) if at in times]


def _both(one: Clock, other: Clock) -> Clock:
    return one if one == other else Least((one, other))
