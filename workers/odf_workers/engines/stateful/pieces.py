"""Parts of a query between operators: plans that each run builds anew over its changes.

A part maps rows one by one (project, filter, explode, union), so it can map changes as well: hidden
columns pass along with each row, and a part treats a retraction exactly like the retracted row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ..spark.catalyst import Catalyst, Node, expr_id, items
from ..spark.columns import col
from .clock import Clock
from .times import Times

SIGN = "odf sign"
"""1 if the row is added, -1 if it is removed."""
SEQ = "odf seq"
"""Offset of the row in its input; null for rows that an operator computed."""
GROUP = "odf group"
"""Group of a change. Only changes of the same group may form a correction."""
AT = "odf at"
HIDDEN = (SIGN, SEQ, GROUP)


class Changes(Protocol):
    """The changes of a run, for the leaves of a plan."""

    def input(self, alias: str) -> DataFrame:
        """Return the new rows of an input, with all of its columns and the hidden ones."""
        ...

    def made(self, operator: int) -> DataFrame:
        """Return the changes of an operator's result, with the hidden columns."""
        ...


Build = Callable[[Changes], tuple[Node, list[Node]]]
"""Returns the plan over a run's changes, and its hidden attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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
    catalyst: Catalyst, part: Part, changes: Changes, columns: Sequence[tuple[str, Node]]
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
