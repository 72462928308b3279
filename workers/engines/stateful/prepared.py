"""Frames over rows that every run brings anew: analysed once, bound to what a run has.

Most of what a run of few rows costs is to say what is computed: thousands of calls into the JVM,
and Spark's analysis of every step of a frame. From run to run only rows and watermarks differ. So
the analysed plan is kept with stand-ins for both, and a run puts its own in their place.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ..spark.catalyst import Catalyst, Node, items, kind
from .clock import Clock

KEPT = 64
"""Plans of one query; runs differ in what they need not look at."""
_ALMOST_ALL = 1 << 62


@dataclass(frozen=True, slots=True)
class Watermark:
    """A watermark as a query sees it, that of a clock, moved by so many microseconds."""

    after: bool
    """Whether of the end of a run, or of its beginning."""
    late: bool
    """Whether behind the allowed lateness."""
    clock: Clock
    plus: int = 0


@dataclass(frozen=True, slots=True)
class Since:
    """The time before which nothing of an operator's left side changes, moved."""

    operator: int
    plus: int = 0


Number = Watermark | Since
"""What differs from run to run, beside the rows."""


@dataclass(slots=True)
class Form:
    """A plan with stand-ins: rows by the name of their source, numbers by what they say."""

    rows: list[tuple[str, Node]] = field(default_factory=list)
    numbers: dict[Number, Node] = field(default_factory=dict)
    plan: Node = None
    schema: T.StructType = field(default_factory=T.StructType)


class Prepared:
    """The plans of one query. Used by one run at a time."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._forms: dict[Hashable, Form] = {}
        self._open: Form | None = None
        self._first = secrets.randbelow(_ALMOST_ALL)
        """Stand-ins of numbers are no constants that a query could have."""

    @property
    def is_open(self) -> bool:
        """Whether a plan is being made, whose leaves are stand-ins."""
        return self._open is not None

    def form(self, key: Hashable, build: Callable[[], DataFrame]) -> Form:
        """The plan of a key, built if it is the first time."""
        if (known := self._forms.get(key)) is not None:
            return known
        form = self._open = Form()
        try:
            frame = build()
        finally:
            self._open = None
        form.plan, form.schema = self._catalyst.plan(frame), frame.schema
        self._check(form)
        if len(self._forms) >= KEPT:
            self._forms.clear()
        self._forms[key] = form
        return form

    def leaf(self, source: str, schema: T.StructType) -> DataFrame:
        """A stand-in for rows of a source."""
        form = self._opened()
        frame = self._catalyst.empty(schema)
        form.rows.append((source, self._catalyst.plan(frame)))
        return frame

    def number(self, number: Number) -> Column:
        """A stand-in for a number."""
        known = self._opened().numbers
        text = f"{self._first + len(known)}L"
        if number in known:
            text = str(known[number].sql())
        else:
            known[number] = self._catalyst.sql(text)
        return F.expr(text)

    def bound(
        self, form: Form, rows: Callable[[str], Node], value: Callable[[Number], int | None]
    ) -> DataFrame:
        """The frame over rows and numbers of a run."""
        plan = form.plan
        if form.numbers:
            known = ((node, self._catalyst.sql(f"{value(n)}L")) for n, node in form.numbers.items())
            plan = plan.transformAllExpressions(self._map(known))
        leaves = ((node, self._standing_as(node, rows(name))) for name, node in form.rows)
        plan = plan.transformUp(self._map(leaves))
        # It is, part by part; else all rules of the analyser would look at it again.
        plan.setAnalyzed()
        return self._catalyst.frame(plan)

    def _opened(self) -> Form:
        if self._open is None:
            raise RuntimeError("stand-ins are for plans that are being made")
        return self._open

    def _standing_as(self, leaf: Node, rows: Node) -> Node:
        """Rows with the columns of a stand-in."""
        if kind(rows) == "LocalRelation":
            return leaf.copy(leaf.output(), rows.data(), False, rows.stream())
        columns = zip(items(rows.output()), items(leaf.output()), strict=True)
        aliases = [self._catalyst.alias(own, str(like.name()), like) for own, like in columns]
        return self._catalyst.project(aliases, rows)

    def _map(self, pairs: Iterable[tuple[Node, Node]]) -> Node:
        """A map of Scala is a partial function, which is what plans are rewritten by."""
        known = self._catalyst.class_of("java.util", "HashMap")()
        for old, new in pairs:
            known.put(old, new)
        return self._catalyst.class_of("org.apache.spark.api.python", "PythonUtils").toScalaMap(
            known
        )

    def _check(self, form: Form) -> None:
        """Spark renames leaves that it meets twice; rows could not be put there any more."""
        known = [node for _, node in form.rows]
        for leaf in items(form.plan.collectLeaves()):
            if not any(leaf.equals(stand_in) for stand_in in known):
                raise RuntimeError(f"a plan over rows to come has a leaf of its own: {leaf}")
