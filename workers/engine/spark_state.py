"""Transforms on Spark that depend on rows of earlier iterations: handed to what keeps state."""

from __future__ import annotations

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from .inputs import BATCH_ROWS, EngineInput
from .stateful import Dropped, NewRows, StatefulInput, run, stateful_plan
from .transform import Computed, Work

_DROPPED = {
    "late": "{} rows were older than the allowed lateness and came to nothing",
    "late_changes": "{} changes of rows older than the allowed lateness came to nothing",
    "unmatched": "{} retractions or corrections were of rows that are not there",
}


def compute_with_state(work: Work, session: SparkSession) -> Computed | None:
    """Rows of the query, which was checked, and its state; None if it needs none.

    Raises:
        InvalidQuery: the query is wrong, or cannot be kept up to date.
    """
    inputs = [
        StatefulInput(alias=item.alias, schema=item.schema, vocab=item.vocab)
        for item in work.inputs
    ]
    plan = stateful_plan(session, work.transform, inputs, work.vocab)
    if plan is None:
        return None
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


def _new_rows(item: EngineInput) -> NewRows:
    return NewRows(
        alias=item.alias,
        paths=(item.path,) if item.rows else (),
        interval=item.interval if item.rows else None,
        watermark=item.watermark,
    )


def _tell(work: Work, dropped: Dropped) -> None:
    for name, text in _DROPPED.items():
        if count := getattr(dropped, name):
            work.listener.warning(text.format(count))
