"""Rows of a staged batch, merged with the history and in their final order.

At most one Spark action, and none where all fits memory and Arrow and Spark agree on it. Where
every row of the batch passes, the merge has nothing to do but to put them in order: rows that come
in order are taken as they lie. What fits memory is sorted there, since sorting by range has Spark
compute the merge twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.reading import MergeStrategy, MergeStrategyChangelogStream

from ...engines.spark.frames import UnsupportedByEngine, read_parquet, sorted_batches, written_files
from ...engines.spark.session import Spark
from ...merge.table import MERGE, Strategy, check_key, check_operations, merging_of
from ...slices.arrow_or_spark import equal_alike, orders_alike
from ...slices.columns import POSITION, Merging, Operation, col
from ...slices.conform import carrier
from ...slices.schema import MILLIS
from .ordering import sorted_rows
from .spark_files import carried
from .stage import Staged

SMALL_ROWS = 200_000
"""Up to so many rows one task sorts and memory holds the result."""
SORT_BYTES = 256 << 20
"""Up to so many bytes are sorted in memory; sorting takes three times as much."""
ROW_BYTES = 256
"""What a row of the history is taken for when the batch has none."""


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
    projected: bool = False
    distinct: bool = False
    """What is known of history and batch, see `Merging`."""
    partitions: int = 4
    small_rows: int = SMALL_ROWS
    sort_bytes: int = SORT_BYTES


def merged(run: MergeRun, session: Spark, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Final rows, without offsets and system time.

    Raises:
        CannotMerge: key or compared columns are missing.
        UnsupportedByEngine: a column type Spark cannot carry.
    """
    rule = MERGE[type(run.strategy)]
    merging = replace(
        merging_of(run.strategy, run.vocab), projected=run.projected, distinct=run.distinct
    )
    check_operations(merging, run.staged.schema, rule)
    order = rule.order(merging)
    if rule.passes and not (rule.reads and run.history):
        check_key(merging, run.staged.schema.names, rule)
        if run.staged.ordered and order[0] == run.vocab.event_time_column:
            return _appended(run.staged.batches(), merging)
        if _fits(run, order):
            return _appended(_sorted_here([run.staged.rows_of_all()], order, run), merging)
    if _merges_here(run, rule, merging, order):
        return _merged_here(run, rule, merging, order)
    _check_order(run.schema, order)
    touched = run.staged.rows + (run.history_rows if rule.reads else 0)
    small = touched <= run.small_rows
    own = session.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "1" if small else str(run.partitions))
    position = pa.field(POSITION, pa.int64())
    new = read_parquet(own, [run.staged.file()], run.staged.schema.append(position))
    prev = _history(run, rule, merging, own, scratch) if run.history else None
    result = rule.merge(merging, prev, new)
    if not small and _fits(run, order):
        tables = [pq.read_table(path) for path in written_files(result, scratch)]
        return _sorted_here(tables, order, run)
    if run.staged.event_time_nulls and run.vocab.event_time_column in order:
        result = _with_event_time(result, run)
    return sorted_batches(
        result,
        order,
        scratch,
        small=small,
        partitions=run.partitions,
    )


def _merges_here(run: MergeRun, rule: Strategy, merging: Merging, order: Sequence[str]) -> bool:
    """Whether no engine is needed: all fits memory, and means the same here."""
    known = (merging.projected or not run.history) and (merging.distinct or not rule.here_distinct)
    kinds = [*run.schema.types, *run.staged.schema.types]
    return rule.here is not None and known and equal_alike(kinds) and _fits(run, order)


def _merged_here(
    run: MergeRun, rule: Strategy, merging: Merging, order: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    if rule.here is None:
        raise AssertionError("unreachable: asked for where there is one")
    files = [pq.read_table(path) for path in run.history]
    prev = pa.concat_tables(files) if files else None
    return _sorted_here([rule.here(merging, prev, run.staged.rows_of_all())], order, run)


def _fits(run: MergeRun, order: Sequence[str]) -> bool:
    """Whether the result may be sorted in memory: by its size at worst, and its columns."""
    row = run.staged.size // max(1, run.staged.rows) or ROW_BYTES
    rows = 2 * run.staged.rows + run.history_rows if run.history else run.staged.rows
    own = {name: run.schema.field(name).type for name in order if name in run.schema.names}
    return rows * row <= run.sort_bytes and orders_alike(list(own.values()))


def _sorted_here(
    tables: Sequence[pa.Table], order: Sequence[str], run: MergeRun
) -> Iterator[pa.RecordBatch]:
    if not tables:
        return
    table = pa.concat_tables(tables)
    keys = {name: table.column(name) for name in order if name in table.column_names}
    times = keys.get(run.vocab.event_time_column)
    if times is not None and times.null_count:
        fallback = pa.scalar(run.source_event_time.millis, MILLIS).cast(times.type, safe=False)
        keys[run.vocab.event_time_column] = times.fill_null(fallback)
    yield from sorted_rows(table, list(keys.values()))


def _appended(batches: Iterator[pa.RecordBatch], merging: Merging) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        codes = pa.repeat(pa.scalar(int(Operation.APPEND), pa.int32()), batch.num_rows)
        yield batch.append_column(merging.op, codes)


def reads_history(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].reads is not None


def looks_back(strategy: MergeStrategy) -> bool:
    """Whether a batch is compared with the history, or merged with it."""
    return reads_history(strategy) or isinstance(strategy, MergeStrategyChangelogStream)


def takes_operations(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].takes_operations


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


def _history(
    run: MergeRun, rule: Strategy, merging: Merging, session: SparkSession, scratch: Path
) -> DataFrame | None:
    if rule.reads is None:
        return None
    columns = rule.reads(merging)
    schema = pa.schema([f for f in run.schema if columns is None or f.name in columns])
    return read_parquet(session, carried(run.history, schema, scratch / "carried"), schema)


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
