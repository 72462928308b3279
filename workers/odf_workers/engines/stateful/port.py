"""The interface of stateful queries to the engine's transforms.

    plan = stateful_plan(session, transform, inputs, vocab)       # at definition and at every run
    if plan is not None:
        result = run(plan, new_rows, state=old, new_state=path, output=path, scratch=folder)

with `stateful_plan(SparkSession, Transform, Sequence[StatefulInput], Vocab) -> Plan | None` of
`.plan` and `run(Plan, Sequence[NewRows], *, state: Path | None, new_state: Path, output: Path,
scratch: Path) -> Result` of `.run`.

`stateful_plan` returns None when no row of the result depends on more than one row of an input:
the query is then stateless and not handled here. It raises `NotIncremental` for a query that needs
state which cannot be kept incrementally, and `InvalidQuery` for any other wrong query.

`run` promises: equal requests give equal rows in equal order and equal bytes of state, whatever
the number of cores and partitions; a +C directly follows its −C; only `new_state`, `output` and
`scratch` are written. The caller adds offsets and system time, and stores the latest watermark of
each input (while an input has none, all results are held back).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_protocol.metadata.data import OffsetInterval

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
"""Settings that a session needs to parse and analyse the accepted queries."""


class ForeignState(InvalidQuery):
    """The checkpoint was written for another query; the derivative has to be reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulInput:
    """An input under its alias in the query, with all of its columns, including system columns."""

    alias: str
    schema: pa.Schema
    vocab: Vocab


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """The new rows of one input: the rows of the files within the interval, and the watermark.

    `watermark` is the newest one that the input ever had, even if this run has no new one.
    """

    alias: str
    paths: tuple[Path, ...] = ()
    interval: OffsetInterval | None = None
    watermark: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Numbers of changes of inputs that were dropped, for the log and the response of the job."""

    late: int = 0
    """Appended rows older than the allowed lateness."""
    late_changes: int = 0
    """Retractions and corrections of rows older than the allowed lateness."""
    unmatched: int = 0
    """Retractions and corrections of rows that do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one run, which has written `output` and `new_state`.

    The output is one Parquet file, even without rows: the operation column (int32) of the given
    vocabulary, then the query's columns in the query's order. Rows are in their final order.
    """

    rows: int
    schema: pa.Schema
    watermark: Instant | None
    dropped: Dropped
    state_rows: int
