"""Rows of a staged batch that is too large for memory, merged with the history and in their order.

At most one Spark action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)

from ...engines.spark.columns import col
from ...engines.spark.frames import UnsupportedByEngine, read_parquet, sorted_batches
from ...engines.spark.session import Spark
from ...merge.table import MERGE, merging_of
from ...slices.columns import POSITION
from ...slices.conform import carrier
from .spark_append import append
from .spark_changelog_stream import changelog_stream
from .spark_files import carried
from .spark_ledger import ledger
from .spark_snapshot import snapshot
from .spark_sql import Narrowed
from .spark_upsert_stream import upsert_stream
from .stage import Staged

Merge = Callable[[Narrowed, DataFrame | None, DataFrame], DataFrame]
FRAMES: dict[type, Merge] = {
    MergeStrategyAppend: append,
    MergeStrategyLedger: ledger,
    MergeStrategySnapshot: snapshot,
    MergeStrategyChangelogStream: changelog_stream,
    MergeStrategyUpsertStream: upsert_stream,
}


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
    projected: bool = False
    distinct: bool = False
    """What is known of history and batch, see `Narrowed`."""
    partitions: int = 4


def merged(run: MergeRun, session: Spark, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Final rows, without offsets and system time.

    Raises:
        UnsupportedByEngine: a column type Spark cannot carry.
    """
    known = merging_of(run.strategy, run.vocab)
    merging = Narrowed(
        vocab=known.vocab,
        key=known.key,
        compare=known.compare,
        projected=run.projected,
        distinct=run.distinct,
    )
    order = MERGE[type(run.strategy)].order(merging)
    _check_order(run.schema, order)
    own = session.newSession()
    own.conf.set("spark.sql.shuffle.partitions", str(run.partitions))
    position = pa.field(POSITION, pa.int64())
    new = read_parquet(own, [run.staged.file()], run.staged.schema.append(position))
    prev = _history(run, own, scratch) if run.history else None
    result = FRAMES[type(run.strategy)](merging, prev, new)
    if run.staged.event_time_nulls and run.vocab.event_time_column in order:
        result = _with_event_time(result, run)
    return sorted_batches(result, order, scratch, small=False, partitions=run.partitions)


def _check_order(schema: pa.Schema, order: Sequence[str]) -> None:
    """Numbers that travel as text have another order than their texts."""
    for name in order:
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        if pa.types.is_decimal(kind) and pa.types.is_string(carrier(kind)):
            raise UnsupportedByEngine(
                f"column `{name}` of type {kind} cannot be part of this key: Spark has no order "
                "for it",
                column=name,
            )


def _history(run: MergeRun, session: SparkSession, scratch: Path) -> DataFrame:
    return read_parquet(session, carried(run.history, run.schema, scratch / "carried"), run.schema)


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
