"""Run transforms that depend on rows of earlier iterations, by the package `stateful`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ..iteration.inputs import BATCH_ROWS, EngineInput
from ..iteration.transform import Computed, Work
from ..stateful import Dropped, NewRows, Plan, StatefulInput, run, stateful_plan

KEPT_PLANS = 16
"""Limit of cached plans: as many stateful queries as are likely to take turns on a worker."""
_DROPPED = {
    "late": "{} rows were older than the allowed lateness and came to nothing",
    "late_changes": "{} changes of rows older than the allowed lateness came to nothing",
    "unmatched": "{} retractions or corrections were of rows that are not there",
}


class Plans:
    """Cache of the plans of queries that ran here. One run at a time may use a plan."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Plan] = OrderedDict()

    def taken(self, work: Work, session: SparkSession) -> Plan | None:
        """Remove the plan of a query from the cache and return it. Return None if it is missing or
        belongs to another Spark."""
        with self._lock:
            plan = self._kept.pop(_key(work), None)
        if plan is None or plan.catalyst.session.sparkContext is not session.sparkContext:
            return None
        return plan

    def put_back(self, work: Work, plan: Plan) -> None:
        """Return a plan to the cache, after a run without errors."""
        with self._lock:
            self._kept[_key(work)] = plan
            while len(self._kept) > KEPT_PLANS:
                self._kept.popitem(last=False)


def plan_with_state(work: Work, session: SparkSession) -> Plan | None:
    """Plan a query that was checked; return None if it needs no state.

    Raises:
        InvalidQuery: the query is wrong, or its result cannot be kept up to date.
    """
    return stateful_plan(session, work.transform, _inputs(work), work.vocab)


def compute_with_state(work: Work, plan: Plan) -> Computed:
    """Compute the rows of the query and its new state.

    Raises:
        InvalidQuery: the query cannot be computed over these rows.
    """
    state, rows = work.scratch / "new-state", work.scratch / "rows"
    result = run(
        plan,
        [_new_rows(item) for item in work.inputs],
        state=work.state,
        new_state=state,
        output=rows,
        scratch=work.scratch,
    )
    _tell(work, result.dropped)
    return Computed(
        schema=result.schema,
        batches=pq.ParquetFile(rows).iter_batches(BATCH_ROWS),
        state=lambda: state,
        delays=True,
        watermark=result.watermark,
        keeps_corrections=True,
    )


def _key(work: Work) -> Hashable:
    """Return everything on which a plan depends."""
    return work.transform, _inputs(work), work.vocab


def _inputs(work: Work) -> tuple[StatefulInput, ...]:
    return tuple(
        StatefulInput(alias=item.alias, schema=item.schema, vocab=item.vocab)
        for item in work.inputs
    )


def _new_rows(item: EngineInput) -> NewRows:
    return NewRows(
        alias=item.alias,
        paths=(item.path,) if item.rows else (),
        interval=item.interval if item.rows else None,
        watermark=item.watermark,
    )


def _tell(work: Work, dropped: Dropped) -> None:
    work.listener.late(dropped.late + dropped.late_changes)
    for name, text in _DROPPED.items():
        if count := getattr(dropped, name):
            work.listener.warning(text.format(count))
