"""Split the condition of a join into keys, bounds on the difference of times, and the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..spark.catalyst import Node, children, kind, plain, references
from .clock import Clock
from .pieces import Part
from .times import WindowClock, linear, time_of

_STRICT = {"LessThan": 1, "LessThanOrEqual": 0, "GreaterThan": 1, "GreaterThanOrEqual": 0}


Key = tuple[Node, Node, bool]
"""Left and right expression, and whether nulls are equal."""


@dataclass(slots=True)
class Condition:
    """A split condition of a join. `lower` and `upper` bound the right less the left of `times`."""

    keys: list[Key] = field(default_factory=list)
    right_only: list[Node] = field(default_factory=list)
    rest: list[Node] = field(default_factory=list)
    times: tuple[Node, Node] | None = None
    lower: int | None = None
    upper: int | None = None


def taken_apart(tests: Iterable[Node], left: Part, right: Part) -> Condition:
    """Sort the tests of a join between two parts by their purpose."""
    found = Condition()
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


def _key(found: Condition, test: Node, left: Part, right: Part) -> bool:
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


def _bounded(found: Condition, test: Node, left: Part, right: Part) -> bool:
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
