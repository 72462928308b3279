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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .aggregates import Call
from .clock import Clock, Least, Moments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
class Side:
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

    sides: tuple[Side, ...]
    keys: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def from_sums(self) -> bool:
        return all(call.from_sums() for call in self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Selects the first `limit` rows of each partition. If `visible`, the result has the place."""

    sides: tuple[Side, ...]
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

    sides: tuple[Side, ...]
    keys: tuple[tuple[str, str, bool], ...]
    """Left and right column, and whether nulls are equal."""
    outer: bool
    lower: int
    upper: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfJoin:
    """Joins each left row with the newest right row of its key that is not after it."""

    sides: tuple[Side, ...]
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
