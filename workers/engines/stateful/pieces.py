"""Parts of a query between operators: plans that are built anew over each run's changes.

A part maps rows one by one (project, filter, explode, union), so it maps changes as well: each row
carries hidden columns along, and a retraction takes the way its row took.
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
"""1: the row comes, -1: it goes."""
SEQ = "odf seq"
"""Offset of the row in its input; null for rows an operator made."""
GROUP = "odf group"
"""Changes of one group may be told as corrections of each other."""
AT = "odf at"
HIDDEN = (SIGN, SEQ, GROUP)


class Changes(Protocol):
    """What a run can be asked for."""

    def input(self, alias: str) -> DataFrame:
        """New rows of an input with all its columns and the hidden ones."""
        ...

    def made(self, operator: int) -> DataFrame:
        """Changes of an operator's result, with the hidden columns."""
        ...


Build = Callable[[Changes], tuple[Node, list[Node]]]
"""The plan over a run's changes, and its hidden attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A plan whose leaves are inputs and results of operators."""

    build: Build
    output: tuple[Node, ...]
    times: Times
    base: Clock
    """What the watermark of a dataset with these rows is."""
    ledger: frozenset[int] = frozenset()
    """Columns that depend on the ledger (offset, system time, operation), not on the event."""
    operation: frozenset[int] = frozenset()
    """Columns that are the operation of the row."""
    fixed: frozenset[int] = field(default=frozenset())
    """Offsets of an input: different for every row of it."""
    source: str | None = None
    """The input this is nothing but rows of."""
    passes: bool = False
    """Rows of an input go through, of which some may be taken back."""

    def ids(self) -> set[int]:
        return {expr_id(attribute) for attribute in self.output}


def leaf(
    catalyst: Catalyst, frame: DataFrame, columns: Iterable[tuple[str, Node]]
) -> tuple[Node, list[Node]]:
    """A frame as the leaf of a plan: its columns become the attributes they stand for."""
    plan = catalyst.plan(frame)
    found = dict(zip(frame.schema.names, items(plan.output()), strict=True))
    shown = [catalyst.alias(found[name], str(like.name()), like) for name, like in columns]
    hidden = [catalyst.alias(found[name], name) for name in HIDDEN]
    project = catalyst.project([*shown, *hidden], plan)
    return project, [alias.toAttribute() for alias in hidden]


def framed(
    catalyst: Catalyst, part: Part, changes: Changes, columns: Sequence[tuple[str, Node]]
) -> DataFrame:
    """Named columns over a part, and the hidden ones."""
    plan, hidden = part.build(changes)
    named = [catalyst.alias(expression, name) for name, expression in columns]
    kept = [catalyst.alias(attribute, name) for attribute, name in zip(hidden, HIDDEN, strict=True)]
    return catalyst.frame(catalyst.project([*named, *kept], plan))


def with_time(frame: DataFrame, time: str, dropped: Collection[str]) -> DataFrame:
    """Adds `odf at`: the microseconds of a timestamp, a date or the start of a window."""
    kind = frame.schema[time].dataType.typeName()
    value = f"`{time}`.start" if kind == "struct" else f"cast(`{time}` as timestamp)"
    kept = [col(name) for name in frame.schema.names if name not in dropped]
    return frame.select(*kept, F.expr(f"unix_micros({value})").alias(AT))
