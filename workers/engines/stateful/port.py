"""What the engine's transform path and the stateful one say to each other.

    plan = stateful_plan(session, transform, inputs, vocab)       # at definition and at every run
    if plan is not None:
        result = run(plan, new_rows, state=old, new_state=path, output=path, scratch=folder)

with `stateful_plan(SparkSession, Transform, Sequence[StatefulInput], Vocab) -> Plan | None` of
`.plan` and `run(Plan, Sequence[NewRows], *, state: Path | None, new_state: Path, output: Path,
scratch: Path) -> Result` of `.run`.

`stateful_plan` answers None when no row of the result depends on more than one row of an input:
the query is then stateless and not handled here. A query that would need state which cannot be
kept incrementally is refused with `NotIncremental`; any other wrong query with `InvalidQuery`.

Promises of `run`: equal requests give equal rows in equal order and equal bytes of state,
whatever the number of cores and partitions; −C is directly followed by its +C; nothing outside of
`new_state`, `output` and `scratch` is touched. The caller adds offsets and system time, and
keeps the latest watermark of each input (an input without one holds everything back).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.data import OffsetInterval

from ..port.port import InvalidQuery, NotIncremental

__all__ = [
    "SESSION_SETTINGS",
    "Dropped",
    "ForeignState",
    "NewRows",
    "NotIncremental",
    "Result",
    "StatefulInput",
]

SESSION_SETTINGS = {"spark.sql.join.asofJoin.enabled": "true"}
"""Settings a session needs to parse and analyse the queries that are accepted here."""


class ForeignState(InvalidQuery):
    """The checkpoint was written for another query; the derivative has to be reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulInput:
    """An input as the query knows it, with all of its columns, system columns included."""

    alias: str
    schema: pa.Schema
    vocab: Vocab


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """What is new of one input: rows of the files within the interval, and its watermark.

    `watermark` is the newest the input ever had, also when this run brought none.
    """

    alias: str
    paths: tuple[Path, ...] = ()
    interval: OffsetInterval | None = None
    watermark: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Changes of inputs that came to nothing; worth a line in the log and in the job's answer."""

    late: int = 0
    """Appended rows older than the allowed lateness."""
    late_changes: int = 0
    """Retractions and corrections of rows older than the allowed lateness."""
    unmatched: int = 0
    """Retractions and corrections of rows that are not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One step: `output` and `new_state` were written.

    The output is one Parquet file: the operation column (int32) of the given vocabulary, then the
    query's columns in the query's order, rows in their final order; also when it has no rows.
    """

    rows: int
    schema: pa.Schema
    watermark: Instant | None
    dropped: Dropped
    state_rows: int
