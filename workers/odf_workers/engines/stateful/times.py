"""Find the expressions that are times to which watermarks apply, and the clock of each.

Parts of a query between operators: plans that each run builds anew over its changes.

A part maps rows one by one (project, filter, explode, union), so it can map changes as well: hidden
columns pass along with each row, and a part treats a retraction exactly like the retracted row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ..port.port import NotIncremental
from ..spark.catalyst import (
    Catalyst,
    Node,
    children,
    col,
    expr_id,
    items,
    kind,
    literal,
    plain,
    references,
    type_of,
    walk,
)
from .operators import Clock, LaterClock, WindowStart, truncated


@dataclass(frozen=True, slots=True)
class WindowClock:
    """Clock of the struct that `window(…)` returns."""

    start: WindowStart

    @property
    def end(self) -> Clock:
        return LaterClock(self.start, self.start.size)


Times = Mapping[int, Clock | WindowClock]
"""Known times among the columns of a plan, by attribute."""


def time_of(expression: Node, times: Times) -> Clock | WindowClock | None:
    """Return the clock of an expression; None if watermarks say nothing about it."""
    expression = plain(expression)
    name = kind(expression)
    if name == "AttributeReference":
        return times.get(expr_id(expression))
    if name == "Alias":
        return time_of(children(expression)[0], times)
    if name == "GetStructField":
        window = time_of(children(expression)[0], times)
        if isinstance(window, WindowClock):
            return window.start if int(expression.ordinal()) == 0 else window.end
        return None
    if name == "CreateNamedStruct":
        return _window(expression, times)
    return _derived(name, expression, times)


def clock_of(expression: Node, times: Times) -> Clock:
    """Return the clock of an expression, or of a window's start. Raise `NotIncremental`."""
    clock = time_of(expression, times)
    if clock is None:
        raise NotIncremental(f"{expression.sql()} is no event time: watermarks do not speak of it")
    return clock.start if isinstance(clock, WindowClock) else clock


def _derived(name: str, expression: Node, times: Times) -> Clock | None:
    parts = children(expression)
    if name == "Cast":
        clock = _simple(parts[0], times)
        if clock is None or isinstance(type_of(expression), T.TimestampType):
            return clock
        return truncated(clock, "DAY") if isinstance(type_of(expression), T.DateType) else None
    if name in ("TruncTimestamp", "TruncDate"):
        unit, of = parts[:2] if name == "TruncTimestamp" else (parts[1], parts[0])
        clock = _simple(of, times)
        value = literal(unit)
        return None if clock is None or value is None else truncated(clock, str(value))
    if name == "TimestampAddInterval":
        clock, by = _simple(parts[0], times), micros(parts[1])
        return None if clock is None or by is None else LaterClock(clock, by)
    return None


def micros(interval: Node) -> int | None:
    """Return the length of a constant interval; None for months, and if it is not constant."""
    if not isinstance(type_of(interval), T.DayTimeIntervalType):
        return None
    value = literal(interval)
    return None if value is None else int(value)


def linear(expression: Node) -> tuple[Node, int]:
    """Split an expression into another one and a fixed time that it adds, in microseconds."""
    expression = plain(expression)
    if kind(expression) == "TimestampAddInterval":
        of, interval = children(expression)[:2]
        by = micros(interval)
        if by is not None:
            base, more = linear(of)
            return base, more + by
    return expression, 0


def _simple(expression: Node, times: Times) -> Clock | None:
    clock = time_of(expression, times)
    return None if isinstance(clock, WindowClock) else clock


def _window(expression: Node, times: Times) -> WindowClock | None:
    """Recognise the expression that Spark makes of `window(time, size, slide, origin)`."""
    of = references(expression)
    if len(of) != 1 or len(children(expression)) != 4:
        return None
    clock = times.get(next(iter(of)))
    end = plain(children(expression)[3])
    if clock is None or isinstance(clock, WindowClock) or kind(end) != "PreciseTimestampConversion":
        return None
    size = _constant(children(end)[0], "Add")
    for part in walk(end):
        if kind(part) == "Remainder":
            slide = _constant(part, "Remainder")
            origin = _constant(children(part)[0], "Subtract")
            if size is not None and slide is not None and origin is not None:
                return WindowClock(WindowStart(clock, size, slide, origin))
    return None


def _constant(expression: Node, operator: str) -> int | None:
    if kind(expression) != operator:
        return None
    value = literal(children(expression)[1])
    return None if value is None else int(value)


def known(times: Mapping[int, Clock | WindowClock | None]) -> Times:
    """Return the entries that have a clock."""
    return {at: clock for at, clock in times.items() if clock is not None}


SIGN = "odf sign"
"""1 if the row is added, -1 if it is removed."""
SEQ = "odf seq"
"""Offset of the row in its input; null for rows that an operator computed."""
GROUP = "odf group"
"""Group of a change. Only changes of the same group may form a correction."""
AT = "odf at"
HIDDEN = (SIGN, SEQ, GROUP)


class StateChanges(Protocol):
    """The changes of a run, for the leaves of a plan."""

    def input(self, alias: str) -> DataFrame:
        """Return the new rows of an input, with all of its columns and the hidden ones."""
        ...

    def made(self, operator: int) -> DataFrame:
        """Return the changes of an operator's result, with the hidden columns."""
        ...


Build = Callable[[StateChanges], tuple[Node, list[Node]]]
"""Returns the plan over a run's changes, and its hidden attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePart:
    """A plan whose leaves are inputs and results of operators."""

    build: Build
    output: tuple[Node, ...]
    times: Times
    base: Clock
    """Clock of the watermark of a dataset with these rows."""
    ledger: frozenset[int] = frozenset()
    """Columns that depend on the ledger (offset, system time, operation), not on the event."""
    operation: frozenset[int] = frozenset()
    """Columns that hold the operation of the row."""
    fixed: frozenset[int] = field(default=frozenset())
    """Columns with the offset of an input, which is different for every row of it."""
    source: str | None = None
    """Alias of the input, if the part is just the rows of that input."""
    passes: bool = False
    """Whether rows of an input pass through without an operator, so that some may be removed."""

    def ids(self) -> set[int]:
        return {expr_id(attribute) for attribute in self.output}


def leaf(
    catalyst: Catalyst, frame: DataFrame, columns: Iterable[tuple[str, Node]]
) -> tuple[Node, list[Node]]:
    """Return a frame as the leaf of a plan, and its hidden attributes. Its columns get the ids of
    the attributes that they stand for."""
    plan = catalyst.plan(frame)
    found = dict(zip(frame.schema.names, items(plan.output()), strict=True))
    shown = [catalyst.alias(found[name], str(like.name()), like) for name, like in columns]
    hidden = [catalyst.alias(found[name], name) for name in HIDDEN]
    project = catalyst.project([*shown, *hidden], plan)
    return project, [alias.toAttribute() for alias in hidden]


def framed(
    catalyst: Catalyst, part: TimePart, changes: StateChanges, columns: Sequence[tuple[str, Node]]
) -> DataFrame:
    """Return a frame with named columns over a part, and the hidden columns."""
    plan, hidden = part.build(changes)
    named = [catalyst.alias(expression, name) for name, expression in columns]
    kept = [catalyst.alias(attribute, name) for attribute, name in zip(hidden, HIDDEN, strict=True)]
    return catalyst.frame(catalyst.project([*named, *kept], plan))


def with_time(frame: DataFrame, time: str, dropped: Collection[str]) -> DataFrame:
    """Add `odf at`: the microseconds of a timestamp, a date or the start of a window."""
    kind = frame.schema[time].dataType.typeName()
    value = f"`{time}`.start" if kind == "struct" else f"cast(`{time}` as timestamp)"
    kept = [col(name) for name in frame.schema.names if name not in dropped]
    return frame.select(*kept, F.expr(f"unix_micros({value})").alias(AT))
