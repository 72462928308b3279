"""One operator in one run: which buckets are touched, what is kept of them, what changed.

The result over the rows kept before is compared with the result over those kept after, for the
buckets that new rows or the watermarks touch. What was emitted is thereby never stored.

Per side Spark computes twice: the changes, and the rows after them. Both are written to scratch
files, which are counted and merged into the state by Arrow and read by what comes next; plans stay
short, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ...merge.columns import col
from .catalyst import Catalyst
from .emit import schema_of
from .fold import (
    BUCKET,
    COUNT,
    THERE,
    UNMATCHED,
    all_come,
    counted,
    difference,
    folded_counts,
    folded_rows,
    merely_added,
)
from .operators import Moment, Operator, Side, Window, keeps, late, wakes
from .pieces import AT, GROUP, SEQ, SIGN, Changes
from .port import Dropped
from .results import result, stays
from .state import BATCH_ROWS, Buckets, State, extract, waking, write_section

SMALL_ROWS = 200_000
"""Fewer rows are computed in one task, unless told otherwise."""
LARGE_PARTITIONS = 16
_LATE, _STAYS = "odf late", "odf stays"
Fold = Callable[[DataFrame, DataFrame], DataFrame]


@dataclass(slots=True)
class Work:
    """What the operators of a run share."""

    catalyst: Catalyst
    changes: Changes
    state: State
    scratch: Path
    prev: Moment
    new: Moment
    rows: int
    """How many rows are at hand; decides how finely Spark cuts its work."""
    partitions: int | None
    sections: list[Path] = field(default_factory=list)
    dropped: Dropped = field(default_factory=Dropped)
    state_rows: int = 0
    only_come: bool = True
    """Nothing was kept of what the operators so far touched, so of their results nothing goes."""

    @property
    def small(self) -> bool:
        return self.rows <= SMALL_ROWS

    def cut(self) -> int:
        """Sets and gives the number of partitions of what is computed next."""
        cut = self.partitions or (1 if self.small else LARGE_PARTITIONS)
        self.catalyst.session.conf.set("spark.sql.shuffle.partitions", str(cut))
        return cut

    def hold(
        self, frame: DataFrame, name: str, order: Sequence[str] = ()
    ) -> tuple[Path, DataFrame]:
        """Computed into a folder of files, sorted (by bucket first) if an order is given."""
        cut, folder = self.cut(), self.scratch / name
        keys = [col(each).asc_nulls_first() for each in order]
        if self.small:
            folder.mkdir()
            one = frame.coalesce(1).sortWithinPartitions(*keys) if order else frame
            pq.write_table(one.toArrow().cast(schema_of(frame)), folder / "part-0.parquet")
        else:
            # Buckets are hashes: they lie evenly, so their ranges need no sampling.
            place = F.floor((col(BUCKET).cast("double") / 2.0**64 + 0.5) * cut)
            place = F.least(place, F.lit(cut - 1)).cast("int")
            many = frame.repartitionById(cut, place).sortWithinPartitions(*keys) if order else frame
            many.write.option("compression", "lz4").parquet(str(folder))
        return folder, self.catalyst.session.read.schema(frame.schema).parquet(str(folder))


def held_batches(folder: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of a held frame in their order."""
    for part in sorted(folder.glob("part-*.parquet")):
        wanted = None if columns is None else list(columns)
        yield from pq.ParquetFile(part).iter_batches(BATCH_ROWS, columns=wanted)


def advance(work: Work, place: int, operator: Operator) -> DataFrame:
    """Takes the run's changes into the state; the changes of the result."""
    names = [f"{place}-{at}.parquet" for at in range(len(operator.sides))]
    incoming, retracting, buckets = [], [], []
    for at, name in enumerate(names):
        path, frame = work.hold(_incoming(work, operator, place, at), f"new-{name}")
        touched, goes = _count(work, path)
        incoming.append(frame.where(~col(_LATE)).drop(_LATE))
        retracting.append(goes)
        bounds = wakes(operator, at, work.prev, work.new)
        buckets += [touched, waking(work.state.path(name), bounds)]
    touched = np.unique(np.concatenate(buckets))
    before, after, kept = [], [], 0
    for at, name in enumerate(names):
        shaped, fold = _shaped(operator, operator.sides[at], incoming[at])
        old, count = _old(work, name, touched, shaped)
        kept += count
        if not retracting[at] and SIGN in shaped.columns:
            rows = merely_added(old, shaped)
        elif not count and _is_summed(operator):
            rows = counted(shaped)
        else:
            rows = fold(old, shaped)
        before.append(old)
        after.append(_keep(work, operator, at, rows, name, touched))
    come = result(operator, after, work.new)
    if kept:
        work.only_come = False
        changes = difference(result(operator, before, work.prev), come)
    else:
        changes = all_come(come)
    return changes.withColumn(SEQ, F.lit(None).cast("bigint"))


def _incoming(work: Work, operator: Operator, place: int, at: int) -> DataFrame:
    side = operator.sides[at]
    frame = side.rows(work.changes).drop(GROUP)
    keys = [_hashable(frame, name) for name in side.bucket]
    bound = late(operator, at, work.prev)
    behind = F.lit(False) if bound is None else col(AT) < bound
    # Rows without a time belong nowhere.
    is_late = F.coalesce(behind, F.lit(True)) | col(AT).isNull()
    bucket = F.xxhash64(F.lit(place), *keys)
    return frame.select("*", is_late.alias(_LATE), bucket.alias(BUCKET))


def _hashable(frame: DataFrame, name: str) -> Column:
    """Zero and minus zero are equal, so they have to meet."""
    floating = isinstance(frame.schema[name].dataType, T.FloatType | T.DoubleType)
    return col(name) + F.lit(0.0) if floating else col(name)


def _count(work: Work, path: Path) -> tuple[Buckets, bool]:
    """Buckets that changes touch, whether any takes back; late ones are counted and left out."""
    found, goes = [np.empty(0, np.int64)], False
    for batch in held_batches(path, [BUCKET, _LATE, SIGN]):
        is_late = batch.column(_LATE).to_numpy(zero_copy_only=False).astype(np.bool_)
        back = batch.column(SIGN).to_numpy() < 0
        goes = goes or bool((back & ~is_late).any())
        work.dropped = replace(
            work.dropped,
            late=work.dropped.late + int((is_late & ~back).sum()),
            late_changes=work.dropped.late_changes + int((is_late & back).sum()),
        )
        found.append(np.unique(batch.column(BUCKET).to_numpy()[~is_late]))
    return np.unique(np.concatenate(found)), goes


def _shaped(operator: Operator, side: Side, changes: DataFrame) -> tuple[DataFrame, Fold]:
    """Changes in the form they are kept in, and how they are folded onto what is kept."""
    if not isinstance(operator, Window):
        kept = [col(name) for name in (BUCKET, AT, SEQ, *side.columns, SIGN)]
        return changes.select(*kept), lambda old, new: folded_rows(old, new, side.matched)
    by = [col(BUCKET), col(AT)]
    if not _is_summed(operator):
        columns = [col(name) for name in side.columns]
        often = changes.select(*by, *columns, col(SIGN).cast("bigint").alias(COUNT))
        return often, lambda old, new: folded_counts(old, new, side.columns, ())
    totals = {COUNT: F.sum(col(SIGN))}
    for at, call in enumerate(operator.calls):
        counts = F.expr(call.counted())
        totals[f"n{at}"] = F.sum(F.when(counts, col(SIGN)).otherwise(0))
        exact = call.sum_type()
        if exact is not None:
            value = col(call.names[0]).cast(exact)
            signed = F.when(col(SIGN) > 0, value).otherwise(-value)
            total = F.sum(F.when(counts, signed).otherwise(F.lit(0).cast(exact)))
            totals[f"s{at}"] = total.cast(exact)
    summed = changes.groupBy(*by, *[col(name) for name in operator.keys]).agg(
        *[total.alias(name) for name, total in totals.items()]
    )
    sums = [name for name in totals if name != COUNT]
    return summed, lambda old, new: folded_counts(old, new, operator.keys, sums)


def _is_summed(operator: Operator) -> bool:
    """Whether changes are kept, and shaped, as sums of each group."""
    return isinstance(operator, Window) and operator.from_sums


def _old(work: Work, name: str, touched: Buckets, like: DataFrame) -> tuple[DataFrame, int]:
    """Kept rows of the touched buckets, and how many."""
    schema = T.StructType([f for f in like.schema.fields if f.name != SIGN])
    section = work.state.path(name)
    if section is None or not len(touched):
        return work.catalyst.empty(schema), 0
    part = work.scratch / f"before-{name}"
    count = extract(section, touched, part)
    work.rows = max(work.rows, count)
    if count == 0:
        return work.catalyst.empty(schema), 0
    return work.catalyst.session.read.schema(schema).parquet(str(part)), count


def _keep(
    work: Work, operator: Operator, at: int, rows: DataFrame, name: str, touched: Buckets
) -> DataFrame:
    """Takes the touched rows into the state as far as they matter; those that are there now."""
    flags = (THERE, UNMATCHED, _STAYS)
    columns = [BUCKET, AT, *[n for n in rows.columns if n not in (BUCKET, AT, *flags)]]
    marked = rows.select(
        *[col(name) for name in columns],
        *[col(name) for name in flags[:2]],
        (col(THERE) & stays(operator, at, rows, work.new)).alias(_STAYS),
    )
    schema = schema_of(marked.select(*[col(name) for name in columns]))
    bound = keeps(operator, at, work.new)
    fresh: Iterator[pa.RecordBatch] = iter(())
    frame = marked
    if len(touched):
        path, frame = work.hold(marked, f"after-{name}", columns)
        fresh = _staying(work, path, columns, bound)
    section = work.scratch / "state" / name
    section.parent.mkdir(exist_ok=True)
    work.state_rows += write_section(
        section,
        schema,
        fresh,
        old=work.state.path(name),
        replaced=touched,
        keep=bound,
    )
    work.sections.append(section)
    return frame.where(col(THERE)).drop(*flags)


def _staying(
    work: Work, path: Path, columns: Sequence[str], bound: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in held_batches(path):
        unmatched = int(batch.column(UNMATCHED).to_numpy().sum())
        work.dropped = replace(work.dropped, unmatched=work.dropped.unmatched + unmatched)
        mask = batch.column(_STAYS).to_numpy(zero_copy_only=False).astype(np.bool_)
        if bound is not None:
            mask &= batch.column(AT).to_numpy() >= bound
        yield batch.filter(pa.array(mask)).select(list(columns))
