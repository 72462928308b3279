"""One operator in one run: which buckets are touched, what is kept of them, what changed.

The result over the rows kept before is compared with the result over those kept after, for the
buckets that new rows or the watermarks touch. What was emitted is thereby never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ...merge.columns import col
from ..frames import sorted_batches
from .catalyst import Catalyst
from .emit import schema_of
from .fold import BUCKET, COUNT, difference, folded_counts, folded_rows
from .operators import Moment, Operator, Side, Window, keeps, late, wakes
from .pieces import AT, GROUP, SEQ, SIGN, Changes
from .port import Dropped
from .results import let_go, result
from .state import Buckets, State, extract, waking, write_section

_COME, _GO, _LATE = "odf come", "odf go", "odf late"


@dataclass(slots=True)
class Work:
    """What the operators of a run share."""

    catalyst: Catalyst
    changes: Changes
    state: State
    scratch: Path
    prev: Moment
    new: Moment
    small: bool
    partitions: int
    held: list[DataFrame]
    sections: list[Path]
    dropped: Dropped = field(default_factory=Dropped)
    state_rows: int = 0

    def hold(self, frame: DataFrame) -> DataFrame:
        """Computed once, however often it is read."""
        self.held.append(frame.persist())
        return frame


def advance(work: Work, place: int, operator: Operator) -> DataFrame:
    """Takes the run's changes into the state; the changes of the result."""
    incoming = [_incoming(work, operator, place, at) for at in range(len(operator.sides))]
    counted = [frame.groupBy(BUCKET, _LATE).agg(*_tallies()).toArrow() for frame in incoming]
    _count_late(work, counted)
    names = [f"{place}-{at}.parquet" for at in range(len(operator.sides))]
    buckets = [_timely(table) for table in counted]
    for at, name in enumerate(names):
        bounds = wakes(operator, at, work.prev, work.new)
        buckets.append(waking(work.state.path(name), bounds))
    touched: Buckets = np.unique(np.concatenate(buckets))
    before, after = [], []
    for at, name in enumerate(names):
        frame = incoming[at].where(~col(_LATE)).drop(_LATE)
        shaped, fold = _shaped(operator, operator.sides[at], frame)
        old = _old(work, name, touched, shaped)
        retracting = bool(_total(counted[at], _GO, late=False))
        rows = _folded(work, fold, old, shaped, retracting=retracting)
        before.append(old)
        after.append(work.hold(rows))
    for at, name in enumerate(names):
        bound = keeps(operator, at, work.new)
        rows = after[at] if bound is None else after[at].where(col(AT) >= bound)
        _keep(work, name, let_go(operator, at, rows, work.new), touched, bound)
    gone = result(operator, before, work.prev)
    come = result(operator, after, work.new)
    changed = difference(gone, come.select(*[col(name) for name in gone.columns]))
    return changed.withColumn(SEQ, F.lit(None).cast("bigint"))


def _incoming(work: Work, operator: Operator, place: int, at: int) -> DataFrame:
    side = operator.sides[at]
    frame = side.rows(work.changes).drop(GROUP)
    keys = [_hashable(frame, name) for name in side.bucket]
    bound = late(operator, at, work.prev)
    behind = F.lit(False) if bound is None else col(AT) < bound
    # Rows without a time belong nowhere.
    marked = frame.withColumn(_LATE, F.coalesce(behind, F.lit(True)) | col(AT).isNull())
    return work.hold(marked.withColumn(BUCKET, F.xxhash64(F.lit(place), *keys)))


def _hashable(frame: DataFrame, name: str) -> Column:
    """Zero and minus zero are equal, so they have to meet."""
    floating = isinstance(frame.schema[name].dataType, T.FloatType | T.DoubleType)
    return col(name) + F.lit(0.0) if floating else col(name)


def _tallies() -> list[Column]:
    come = F.count(F.when(col(SIGN) > 0, True)).alias(_COME)
    return [come, F.count(F.when(col(SIGN) < 0, True)).alias(_GO)]


def _timely(table: pa.Table) -> Buckets:
    mask = ~table.column(_LATE).to_numpy(zero_copy_only=False).astype(np.bool_)
    found: Buckets = table.column(BUCKET).to_numpy()[mask]
    return found


def _total(table: pa.Table, name: str, *, late: bool) -> int:
    mask = table.column(_LATE).to_numpy(zero_copy_only=False).astype(np.bool_)
    return int(table.column(name).to_numpy()[mask if late else ~mask].sum())


def _count_late(work: Work, counted: list[pa.Table]) -> None:
    dropped = work.dropped
    for table in counted:
        dropped = replace(
            dropped,
            late=dropped.late + _total(table, _COME, late=True),
            late_changes=dropped.late_changes + _total(table, _GO, late=True),
        )
    work.dropped = dropped


Fold = Callable[[DataFrame, DataFrame], tuple[DataFrame, DataFrame]]


def _shaped(operator: Operator, side: Side, changes: DataFrame) -> tuple[DataFrame, Fold]:
    """Changes in the form they are kept in, and how they are folded onto what is kept."""
    if not isinstance(operator, Window):
        kept = [col(name) for name in (BUCKET, AT, SEQ, *side.columns, SIGN)]

        def rows(old: DataFrame, new: DataFrame) -> tuple[DataFrame, DataFrame]:
            return folded_rows(old, new, side.matched)

        return changes.select(*kept), rows
    if not operator.from_sums:
        keys = list(side.columns)
        total = changes.select(
            col(BUCKET), col(AT), *[col(k) for k in keys], col(SIGN).cast("bigint").alias(COUNT)
        )
        return total, lambda old, new: folded_counts(old, new, keys, ())
    columns = [F.sum(col(SIGN)).alias(COUNT)]
    sums = []
    for at, call in enumerate(operator.calls):
        counts = F.expr(call.counted())
        columns.append(F.sum(F.when(counts, col(SIGN)).otherwise(0)).alias(f"n{at}"))
        sums.append(f"n{at}")
        exact = call.sum_type()
        if exact is not None:
            value = col(call.names[0]).cast(exact)
            signed = F.when(col(SIGN) > 0, value).otherwise(-value)
            zero = F.lit(0).cast(exact)
            total = F.sum(F.when(counts, signed).otherwise(zero)).cast(exact)
            columns.append(total.alias(f"s{at}"))
            sums.append(f"s{at}")
    keys = list(operator.keys)
    by = [col(name) for name in (BUCKET, AT, *keys)]
    return changes.groupBy(*by).agg(*columns), lambda old, new: folded_counts(old, new, keys, sums)


def _old(work: Work, name: str, touched: Buckets, like: DataFrame) -> DataFrame:
    """Kept rows of the touched buckets."""
    schema = T.StructType([f for f in like.schema.fields if f.name != SIGN])
    section = work.state.path(name)
    if section is None or not len(touched):
        return work.catalyst.empty(schema)
    part = work.scratch / f"before-{name}"
    if extract(section, touched, part) == 0:
        return work.catalyst.empty(schema)
    return work.catalyst.session.read.schema(schema).parquet(str(part))


def _folded(
    work: Work, fold: Fold, old: DataFrame, changes: DataFrame, *, retracting: bool
) -> DataFrame:
    if not retracting and SIGN in changes.columns:
        return old.unionByName(changes.drop(SIGN))
    rows, unmatched = fold(old, changes)
    if retracting:
        count = unmatched.collect()[0][0] or 0
        work.dropped = replace(work.dropped, unmatched=work.dropped.unmatched + int(count))
    return rows


def _keep(work: Work, name: str, rows: DataFrame, touched: Buckets, bound: int | None) -> None:
    order = [BUCKET, AT, *[each for each in rows.columns if each not in (BUCKET, AT)]]
    rows = rows.select(*[col(each) for each in order])
    fresh: Iterator[pa.RecordBatch] = iter(())
    if len(touched):
        spill = work.scratch / f"sort-{name}"
        spill.mkdir()
        fresh = sorted_batches(rows, order, spill, small=work.small, partitions=work.partitions)
    path = work.scratch / "state" / name
    path.parent.mkdir(exist_ok=True)
    work.state_rows += write_section(
        path,
        schema_of(rows, order),
        fresh,
        old=work.state.path(name),
        replaced=touched,
        keep=bound,
    )
    work.sections.append(path)
