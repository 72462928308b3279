"""The operators as data, and the rules for how long each keeps its rows.

Each side of an operator is a changelog of rows with a time (`odf at`, microseconds). Four bounds on
that time express everything that depends on watermarks (None: no bound yet):

    late              changes before it are dropped, because the results that they change are final
    wakes(prev, new)  kept rows in [from, to) whose results are due, or that can be removed
    keeps(new)        rows from it on are kept; older ones are removed, even from untouched groups

`P` is the time that the watermarks promise, `H` the same less the allowed lateness.

| operator, side | wakes | keeps |
|---|---|---|
| window | P: the window has ended | at ≥ H |
| ranking within a time | – | at ≥ H |
| other ranking | H: rows can no longer change | at ≥ H, and the best N before |
| interval join, left | P right − upper: no partner will arrive | at ≥ H, or a partner may change |
| interval join, right | – | at ≥ H, or a partner may arrive or change |
| as-of join, left | the lesser P: all older rows were seen | at ≥ the lesser H |
| as-of join, right | the lesser H | at ≥ the lesser H, and per key the newest before |

For all operators, the bound `late` is H of the side.

The aggregates that windows may use, each computed independently of the order of rows.

There are two ways. From the rows, for every aggregate in `FROM_ROWS`: the state keeps the rows of a
window, and an aggregate that depends on their order uses the order of values. From sums, if a value
can be subtracted as well as added: the state keeps only counts and exact sums of each group.

Clocks: what the watermarks of inputs promise about the time columns of future rows.

A clock maps the inputs' watermarks to the least value that a column can have in rows not yet seen
(microseconds since 1970; None: nothing is promised). It moves only when they do, and only forward.
A group of rows by the value of such a column is final once its clock is past that value: for the
start of a window, this is exactly when the watermark reaches the window's end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import types as T  # noqa: N812

from ..spark.catalyst import Node, children, kind, option, plain, type_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_SORTED_SUM = "aggregate(array_sort(collect_list({0}){filter}), 0D, (s, v) -> s + v)"
_SOME = "if(count({0}){filter} = 0, null, {what})"

FROM_ROWS: Mapping[str, str] = {
    "count": "count({distinct}{all}){filter}",
    "sum": "sum({distinct}{0}){filter}",
    "try_sum": "try_sum({distinct}{0}){filter}",
    "avg": "avg({distinct}{0}){filter}",
    "try_avg": "try_avg({distinct}{0}){filter}",
    "min": "min({0}){filter}",
    "max": "max({0}){filter}",
    "bit_and": "bit_and({0}){filter}",
    "bit_or": "bit_or({0}){filter}",
    "bit_xor": "bit_xor({0}){filter}",
    "collect_list": "array_sort(collect_list({distinct}{0}){filter})",
    "collect_set": "array_sort(collect_set({0}){filter})",
    # If several rows have the same greatest or least y, take the greatest or least x.
    "max_by": "max_by({0}, if({1} is null, null, struct({1}, {0}))){filter}",
    "min_by": "min_by({0}, if({1} is null, null, struct({1}, {0}))){filter}",
}
"""SQL by Spark's name of the aggregate."""
FLOAT_SUMS: Mapping[str, str] = {
    "sum": _SOME.replace("{what}", _SORTED_SUM),
    "avg": _SOME.replace("{what}", _SORTED_SUM + " / count({0}){filter}"),
}
"""The same for floating point numbers, whose sums depend on the order of addition."""
WHOLE_AVERAGE = (
    "cast(sum(cast({0} as decimal(38, 0))){filter} as double) / nullif(count({0}){filter}, 0)"
)
WHOLE = T.ByteType | T.ShortType | T.IntegerType | T.LongType


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """An aggregate of a query. `names` are the columns of its arguments, `where` is the column of
    its condition."""

    function: str
    names: tuple[str, ...]
    arguments: tuple[Node, ...]
    where: str | None
    condition: Node | None
    distinct: bool
    type: T.DataType
    of: T.DataType | None
    """Type of the only argument."""

    def from_rows(self) -> str | None:
        """Return SQL over the rows of a group; None for an aggregate that is not supported."""
        template = FROM_ROWS.get(self.function)
        if template is not None and isinstance(self.of, T.FloatType | T.DoubleType):
            # Distinct values have no fixed order either.
            template = FLOAT_SUMS.get(self.function, template)
            if self.distinct and self.function in FLOAT_SUMS:
                return None
        if self.function == "avg" and not self.distinct and isinstance(self.of, WHOLE):
            template = WHOLE_AVERAGE
        if template is None:
            return None
        return template.format(
            *self.names,
            all=", ".join(self.names) or "*",
            distinct="distinct " if self.distinct else "",
            filter=f" filter (where {self.where})" if self.where else "",
        )

    def counted(self) -> str:
        """Return SQL for whether a row counts."""
        tests = [f"{name} is not null" for name in self.names]
        return " and ".join([*tests, self.where] if self.where else tests) or "true"

    def sum_type(self) -> T.DecimalType | None:
        """Return the type of the exact sum that the state keeps; None if no sum is needed."""
        if self.function == "count":
            return None
        if isinstance(self.of, T.DecimalType):
            return T.DecimalType(38, self.of.scale)
        return T.DecimalType(38, 0)

    def from_sums(self) -> bool:
        """Return whether a count and an exact sum are enough to compute the aggregate."""
        if self.distinct:
            return False
        if self.function == "count":
            return True
        if self.function not in ("sum", "avg"):
            return False
        if isinstance(self.of, T.DecimalType):
            # For wider decimals, the division keeps fewer digits than Spark's own average.
            return self.function == "sum" or self.of.precision <= 14
        return isinstance(self.of, WHOLE)

    def finished(self, total: str, count: str) -> str:
        """Return SQL for the result, from the kept sum and count."""
        if self.function == "count":
            return count
        to = self.type.simpleString()
        if self.function == "sum":
            return f"if({count} = 0, null, cast({total} as {to}))"
        if isinstance(self.of, T.DecimalType):
            wide = f"cast({total} as decimal({self.of.precision + 10}, {self.of.scale}))"
            ratio = f"{wide} / cast(nullif({count}, 0) as decimal(20, 0))"
            return f"cast({ratio} as {to})"
        return f"cast({total} as double) / nullif({count}, 0)"


def call_of(expression: Node, at: int) -> FunctionCall:
    """Read an aggregate of an analysed plan; its number `at` is part of its column names."""
    function = plain(expression.aggregateFunction())
    condition = option(expression.filter())
    is_distinct = bool(expression.isDistinct())
    arguments = [plain(argument) for argument in _arguments(function, is_distinct=is_distinct)]
    return FunctionCall(
        function=str(function.prettyName()).lower(),
        names=tuple(f"x{at}_{place}" for place in range(len(arguments))),
        arguments=tuple(arguments),
        where=None if condition is None else f"w{at}",
        condition=condition,
        distinct=is_distinct,
        type=type_of(expression),
        of=type_of(arguments[0]) if len(arguments) == 1 else None,
    )


def _arguments(function: Node, *, is_distinct: bool) -> Sequence[Node]:
    found = children(function)
    if str(function.prettyName()).lower() == "count" and not is_distinct:
        # count(*) counts a constant, which needs no column; but a null is never counted.
        return [one for one in found if kind(one) != "Literal" or one.value() is None]
    return found


Moments = Mapping[str, int | None]
"""Watermark of each input, by alias, in microseconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
DAY = 86_400 * SECOND
CALENDAR_CYCLE = 146_097 * DAY
"""Length of 400 years, after which the calendar repeats. A shifted watermark may be in a year that
`datetime` does not have, but its month is that of a year in another cycle."""
FIXED_UNITS: Mapping[str, tuple[int, int]] = {
    "MICROSECOND": (1, 0),
    "MILLISECOND": (1_000, 0),
    "SECOND": (SECOND, 0),
    "MINUTE": (60 * SECOND, 0),
    "HOUR": (3_600 * SECOND, 0),
    "DAY": (DAY, 0),
    "DD": (DAY, 0),
    # Weeks begin on Monday; 1970 began on a Thursday.
    "WEEK": (7 * DAY, 4 * DAY),
}
"""Length and origin, in microseconds, of units of fixed length."""
MONTHS: Mapping[str, int] = {
    "MONTH": 1,
    "MM": 1,
    "MON": 1,
    "QUARTER": 3,
    "YEAR": 12,
    "YYYY": 12,
    "YY": 12,
}
"""Number of months in each calendar unit."""


class Clock(Protocol):
    """A clock of one column. Clocks compare by value."""

    def at(self, moments: Moments) -> int | None: ...


@dataclass(frozen=True, slots=True)
class InputClock:
    """Clock of the event time of an input."""

    alias: str

    def at(self, moments: Moments) -> int | None:
        return moments[self.alias]


@dataclass(frozen=True, slots=True)
class LaterClock:
    """Clock of a column that is later than another by a fixed time (earlier, if negative)."""

    clock: Clock
    by: int

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        return None if at is None else at + self.by


@dataclass(frozen=True, slots=True)
class Least:
    """Clock of a column whose values come from several others."""

    clocks: tuple[Clock, ...]

    def at(self, moments: Moments) -> int | None:
        ats = [clock.at(moments) for clock in self.clocks]
        known = [at for at in ats if at is not None]
        return min(known) if known and len(known) == len(ats) else None


@dataclass(frozen=True, slots=True)
class WindowStart:
    """Clock of the start of a column's windows: the start of the first window that is open."""

    clock: Clock
    size: int
    slide: int
    origin: int = 0

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        if at is None:
            return None
        steps = (at - self.size - self.origin) // self.slide
        return self.origin + (steps + 1) * self.slide


@dataclass(frozen=True, slots=True)
class CalendarStart:
    """Clock of the first instant of a column's month, quarter or year."""

    clock: Clock
    months: int

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        if at is None:
            return None
        cycles, within = divmod(at, CALENDAR_CYCLE)
        moment = EPOCH + timedelta(microseconds=within)
        month = (moment.month - 1) // self.months * self.months + 1
        start = datetime(moment.year, month, 1, tzinfo=UTC)
        return cycles * CALENDAR_CYCLE + (start - EPOCH) // timedelta(microseconds=1)


def truncated(clock: Clock, unit: str) -> Clock | None:
    """Return the clock of `date_trunc(unit, column)`; None for an unknown unit."""
    unit = unit.upper()
    if unit in FIXED_UNITS:
        length, origin = FIXED_UNITS[unit]
        return WindowStart(clock, length, length, origin)
    return CalendarStart(clock, MONTHS[unit]) if unit in MONTHS else None


def back(moments: Moments, by: int) -> dict[str, int | None]:
    """Return all watermarks, each earlier by the given time."""
    return {alias: None if at is None else at - by for alias, at in moments.items()}


Bounds = tuple[int | None, int | None]
NOTHING: Bounds = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Watermarks at the begin or end of a run, and the same less the allowed lateness."""

    watermarks: Moments
    horizons: Moments

    def promise(self, clock: Clock) -> int | None:
        return clock.at(self.watermarks)

    def horizon(self, clock: Clock) -> int | None:
        return clock.at(self.horizons)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """One input changelog of an operator, with named columns."""

    rows: Callable[..., DataFrame]
    """`rows(run)` returns the changes of a run: the columns, `odf at`, `odf sign`, `odf seq`."""
    columns: tuple[str, ...]
    matched: tuple[str, ...]
    """Columns by which a retraction finds its row: all that do not depend on the ledger."""
    bucket: tuple[str, ...]
    """Columns whose values decide which rows are combined."""
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Aggregates the rows of each group and time to one row, once, when the time has ended."""

    sides: tuple[JoinSide, ...]
    keys: tuple[str, ...]
    calls: tuple[FunctionCall, ...]

    @property
    def from_sums(self) -> bool:
        return all(call.from_sums() for call in self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Selects the first `limit` rows of each partition. If `visible`, the result has the place."""

    sides: tuple[JoinSide, ...]
    limit: int
    order: tuple[tuple[str, str], ...]
    """Names of columns, with the SQL of their direction."""
    newest_first: bool
    """Whether, of rows with equal order columns, the one with the highest offset is the best."""
    visible: bool
    by_time: bool
    """Whether all rows of a partition have one time, so that it is final when that time is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoin:
    """Joins rows with equal keys and lower ≤ right time − left time ≤ upper."""

    sides: tuple[JoinSide, ...]
    keys: tuple[tuple[str, str, bool], ...]
    """Left and right column, and whether nulls are equal."""
    outer: bool
    lower: int
    upper: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfJoin:
    """Joins each left row with the newest right row of its key that is not after it."""

    sides: tuple[JoinSide, ...]
    keys: tuple[tuple[str, str, bool], ...]
    outer: bool

    @property
    def both(self) -> Clock:
        return Least(tuple(side.clock for side in self.sides))


Operator = Window | Ranking | IntervalJoin | AsOfJoin


def wakes(operator: Operator, side: int, prev: Moment, new: Moment) -> Bounds:
    clock = operator.sides[side].clock
    match operator:
        case Window():
            return prev.promise(clock), new.promise(clock)
        case Ranking():
            return NOTHING if operator.by_time else (prev.horizon(clock), new.horizon(clock))
        case IntervalJoin():
            if side == 1 or not operator.outer:
                return NOTHING
            right = operator.sides[1].clock
            return _moved(prev.promise(right), -operator.upper), _moved(
                new.promise(right), -operator.upper
            )
        case AsOfJoin() if side == 0:
            both = operator.both
            # A row is due when both watermarks reach its time; they need not pass it.
            return _moved(prev.promise(both), 1), _moved(new.promise(both), 1)
        case AsOfJoin():
            return prev.horizon(operator.both), new.horizon(operator.both)


def since(operator: Operator, first: Sequence[int | None], prev: Moment, new: Moment) -> int | None:
    """Return a time before which left rows of a join keep their partners; None if any may change.

    `first` is the time of the first change of each side, or None for a side without changes.
    """
    if not isinstance(operator, IntervalJoin | AsOfJoin):
        return None
    upper = operator.upper if isinstance(operator, IntervalJoin) else 0
    start, end = wakes(operator, 0, prev, new)
    if start is None and end is not None:
        return None
    due = None if end is None or (start, end) == NOTHING else start
    known = [at for at in (first[0], _moved(first[1], -upper), due) if at is not None]
    return min(known, default=None)


def keeps(operator: Operator, side: int, new: Moment) -> int | None:
    """Return the time from which rows are kept. None means that all rows are kept, or that a bound
    alone does not decide (rankings, as-of joins)."""
    clock = operator.sides[side].clock
    match operator:
        case Window():
            return new.horizon(clock)
        case Ranking():
            return new.horizon(clock) if operator.by_time else None
        case IntervalJoin():
            own, other = new.horizon(clock), new.horizon(operator.sides[1 - side].clock)
            if side == 0:
                return _least(own, _moved(other, -operator.upper))
            stays = _least(own, _moved(other, operator.lower))
            # A kept left row must not seem to have no partner, so partners are kept as long.
            return (
                _least(stays, _moved(own, operator.lower - operator.upper))
                if operator.outer
                else stays
            )
        case AsOfJoin():
            return new.horizon(operator.both) if side == 0 else None


def _moved(at: int | None, by: int) -> int | None:
    return None if at is None else at + by


def _least(*bounds: int | None) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None
