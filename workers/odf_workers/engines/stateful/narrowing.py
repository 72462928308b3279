"""What the rows of the inputs have in common from which a row of the result was made.

Values of the row are followed down the plan as far as they are those of a column of an input:
through names, groups, partitions and equal keys. A window says between which times its rows are.
Where a value is lost, nothing is known, which only costs time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odf_protocol.instant import Instant, MalformedInstant

from ..port.tracing import Condition
from ..spark.catalyst import Catalyst, Node, children, expr_id, items, kind, option, plain, walk
from .operators import CalendarStart, Clock, InputClock, WindowStart
from .times import WindowClock, time_of

NANOS = 1_000
LONGEST_MONTH = 31 * 86_400 * 1_000_000
_SAME = frozenset(
    {"Filter", "View", "SubqueryAlias", "Sort", "ResolvedHint"}
    | {"RepartitionByExpression", "Repartition"}
)
"""Kinds of nodes whose rows are rows of the node below."""
START = "start"
"""The operator of a condition on the start of a window."""
Known = dict[int, tuple[Condition, ...]]
"""Conditions by attribute; their columns are not named yet."""


@dataclass
class Narrowing:
    """The conditions that were found, one set for each place where an input is read."""

    catalyst: Catalyst
    aliases: frozenset[str]
    found: dict[str, list[set[Condition]]] = field(default_factory=dict)

    def of(self, query: Node, values: Mapping[str, str]) -> dict[str, tuple[Condition, ...]]:
        """Return by input the conditions that hold wherever it is read; `values` are those of the
        row, by column, as texts."""
        self._walk(
            query,
            {
                expr_id(each): (Condition("", "eq", values[str(each.name())]),)
                for each in items(query.output())
                if str(each.name()) in values
            },
        )
        return {
            alias: tuple(sorted(set.intersection(*places))) for alias, places in self.found.items()
        }

    def _walk(self, node: Node, known: Known) -> None:
        name = kind(node)
        if name == "View" and (alias := str(node.desc().identifier().table())) in self.aliases:
            self.found.setdefault(alias, []).append(
                {
                    Condition(str(each.name()), one.operator, one.value)
                    for each in items(node.output())
                    for one in known.get(expr_id(each), ())
                    if one.operator != START
                }
            )
            return
        if name in _SAME:
            self._walk(children(node)[0], known)
        elif name in ("Project", "Aggregate"):
            listed = node.projectList() if name == "Project" else node.aggregateExpressions()
            self._walk(node.child(), _below(items(listed), known))
        elif name == "Window":
            keys = {expr_id(e) for e in items(node.partitionSpec()) if _is_attribute(e)}
            self._walk(node.child(), {at: each for at, each in known.items() if at in keys})
        elif name in ("Join", "AsOfJoin"):
            known = self._with_keys(node, known)
            for child in children(node):
                self._walk(child, _own(child, known))
        elif name == "Union":
            for child in children(node):
                pairs = zip(items(node.output()), items(child.output()), strict=True)
                self._walk(
                    child,
                    {
                        expr_id(ours): known[expr_id(each)]
                        for each, ours in pairs
                        if expr_id(each) in known
                    },
                )
        else:
            for child in children(node):
                self._walk(child, {})

    def _with_keys(self, join: Node, known: Known) -> Known:
        """Return what is known of both sides of a join: equal keys have the same value."""
        both = dict(known)
        for test in self.catalyst.conjuncts(option(join.condition())):
            if kind(test) not in ("EqualTo", "EqualNullSafe"):
                continue
            one, other = (plain(each) for each in children(test))
            if _is_attribute(one) and _is_attribute(other):
                for a, b in ((expr_id(one), expr_id(other)), (expr_id(other), expr_id(one))):
                    both.setdefault(a, known.get(b, ()))
        return both


def _below(listed: Sequence[Node], known: Known) -> Known:
    """Return what is known below a projection or a group."""
    below: Known = {}
    for each in listed:
        for condition in known.get(expr_id(each), ()):
            expression = children(each)[0] if kind(each) == "Alias" else each
            for at, found in _pushed(plain(expression), condition):
                below[at] = (*below.get(at, ()), found)
    return below


def _pushed(expression: Node, condition: Condition) -> Iterable[tuple[int, Condition]]:
    """Yield what a condition on an expression says of the attributes in it."""
    if _is_attribute(expression):
        yield expr_id(expression), condition
        return
    if condition.operator not in ("eq", START) or any(
        kind(part) == "AggregateExpression" for part in walk(expression)
    ):
        return
    if kind(expression) == "GetStructField" and int(expression.ordinal()) == 0:
        for at, found in _pushed(plain(children(expression)[0]), condition):
            yield at, Condition("", START, found.value) if found.operator == "eq" else found
        return
    of = [each for each in walk(expression) if _is_attribute(each)]
    if len({expr_id(each) for each in of}) != 1:
        return
    at = expr_id(of[0])
    if (length := _length(time_of(expression, {at: InputClock("")}))) is not None:
        start = _instant(condition.value)
        if start is not None:
            yield at, Condition("", "ge", str(start))
            yield at, Condition("", "lt", str(Instant(start.ns + length * NANOS)))


def _length(clock: Clock | WindowClock | None) -> int | None:
    """Return how long after the value of a clock the times are that have this value, at most."""
    match clock:
        case WindowClock(start=start) | (WindowStart() as start):
            return start.size
        case CalendarStart(months=months):
            return months * LONGEST_MONTH
        case _:
            return None


def _instant(text: str) -> Instant | None:
    try:
        return Instant.parse(text if "T" in text else f"{text}T00:00:00Z")
    except MalformedInstant:
        return None


def _own(node: Node, known: Known) -> Known:
    own = {expr_id(each) for each in items(node.output())}
    return {at: each for at, each in known.items() if at in own and each}


def _is_attribute(expression: Node) -> bool:
    return kind(expression) == "AttributeReference"
