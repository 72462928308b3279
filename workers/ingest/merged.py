"""Rows of a staged batch, merged with the history and in their final order: one Spark action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from protocol.chain.state import Vocab
from protocol.instant import Instant
from protocol.metadata.reading import MergeStrategy

from ..conform import carrier
from ..engine.frames import UnsupportedByEngine, read_parquet, sorted_batches
from ..merge.columns import POSITION, Merging, col
from ..merge.table import MERGE, Strategy, merging_of
from .stage import Staged

SMALL_ROWS = 200_000
"""Up to so many rows one task sorts and memory holds the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRun:
    """A batch and the history it meets. `history` are files, oldest first."""

    staged: Staged
    strategy: MergeStrategy
    vocab: Vocab
    source_event_time: Instant
    schema: pa.Schema
    """Of the slice to be."""
    history: Sequence[Path] = ()
    history_rows: int = 0
    partitions: int = 4
    small_rows: int = SMALL_ROWS


def merged(run: MergeRun, session: SparkSession, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Final rows, without offsets and system time.

    Raises:
        CannotMerge: key or compared columns are missing.
        UnsupportedByEngine: a column type Spark cannot carry.
    """
    rule = MERGE[type(run.strategy)]
    merging = merging_of(run.strategy, run.vocab)
    touched = run.staged.rows + (run.history_rows if rule.reads else 0)
    small = touched <= run.small_rows
    session = session.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1" if small else str(run.partitions))
    position = pa.field(POSITION, pa.int64())
    new = read_parquet(session, [run.staged.path], run.staged.schema.append(position))
    prev = _history(run, rule, merging, session) if run.history else None
    result = rule.merge(merging, prev, new)
    order = rule.order(merging)
    if run.staged.event_time_nulls and run.vocab.event_time_column in order:
        result = _with_event_time(result, run)
    return sorted_batches(
        result,
        order,
        scratch,
        small=small,
        partitions=run.partitions,
    )


def reads_history(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].reads is not None


def takes_operations(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].takes_operations


def _history(
    run: MergeRun, rule: Strategy, merging: Merging, session: SparkSession
) -> DataFrame | None:
    if rule.reads is None:
        return None
    columns = rule.reads(merging)
    fields = [f for f in run.schema if columns is None or f.name in columns]
    for field in fields:
        if carrier(field.type) != field.type:
            raise UnsupportedByEngine(
                f"column `{field.name}` of type {field.type} cannot be merged by Spark",
                column=field.name,
            )
    return read_parquet(session, run.history, pa.schema(fields))


def _with_event_time(result: DataFrame, run: MergeRun) -> DataFrame:
    """Nulls in the event time take the source's, where that decides the order.

    Otherwise they are filled while writing: a literal that differs from job to job would
    have Spark compile every plan anew.
    """
    name = run.vocab.event_time_column
    fallback: Column = F.timestamp_millis(F.lit(run.source_event_time.millis))
    if pa.types.is_date(run.staged.schema.field(name).type):
        fallback = fallback.cast("date")
    return result.withColumn(name, F.coalesce(col(name), fallback))
