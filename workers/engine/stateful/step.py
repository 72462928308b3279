"""One operator in one run: which buckets are touched, what is kept of them, what changed.

The result over the rows kept before is compared with the result over those kept after, for the
buckets that new rows or the watermarks touch. What was emitted is thereby never stored.

Per side Spark computes twice: the changes, and the rows after them. Both are held, counted and
merged into the state by Arrow, and read by what comes next; plans stay short, and nothing is
computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ...merge.columns import col
from .emit import arrow_schema
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
from .held import Held, Shared
from .operators import Operator, Side, Window, keeps, late, wakes
from .pieces import AT, GROUP, SEQ, SIGN
from .results import result, stays
from .state import Buckets, extract, waking, write_section

_TIMELY, _STAYS = "odf timely", "odf stays"
Fold = Callable[[DataFrame, DataFrame], DataFrame]


def advance(shared: Shared, place: int, operator: Operator) -> DataFrame:
    """Takes the run's changes into the state; the changes of the result."""
    names = [f"{place}-{at}.parquet" for at in range(len(operator.sides))]
    incoming, retracting, buckets = [], [], []
    for at, name in enumerate(names):
        held = shared.hold(_incoming(shared, operator, place, at), f"new-{name}")
        touched, goes = _count(shared, held)
        incoming.append(held.where(_TIMELY))
        retracting.append(goes)
        bounds = wakes(operator, at, shared.prev, shared.new)
        buckets += [touched, waking(shared.state.path(name), bounds)]
    touched = np.unique(np.concatenate(buckets))
    before, after, kept = [], [], 0
    for at, name in enumerate(names):
        shaped, fold = _shaped(operator, operator.sides[at], incoming[at])
        old, count = _old(shared, name, touched, shaped)
        kept += count
        if not retracting[at] and SIGN in shaped.schema.names:
            rows = merely_added(old, shaped)
        elif not count and _is_summed(operator):
            rows = counted(shaped)
        else:
            rows = fold(old, shaped)
        before.append(old)
        after.append(_keep(shared, operator, at, rows, name, touched))
    come = result(operator, after, shared.new)
    if kept:
        shared.only_come = False
        changes = difference(result(operator, before, shared.prev), come)
    else:
        changes = all_come(come)
    return changes.withColumn(SEQ, F.lit(None).cast("bigint"))


def _incoming(shared: Shared, operator: Operator, place: int, at: int) -> DataFrame:
    side = operator.sides[at]
    frame = side.rows(shared.changes)
    keys = [_hashable(frame, name) for name in side.bucket]
    bound = late(operator, at, shared.prev)
    # Rows without a time belong nowhere.
    timely = col(AT).isNotNull() if bound is None else F.coalesce(col(AT) >= bound, F.lit(False))
    return frame.select(
        *[col(name) for name in frame.schema.names if name != GROUP],
        timely.alias(_TIMELY),
        F.xxhash64(F.lit(place), *keys).alias(BUCKET),
    )


def _hashable(frame: DataFrame, name: str) -> Column:
    """Zero and minus zero are equal, so they have to meet."""
    floating = isinstance(frame.schema[name].dataType, T.FloatType | T.DoubleType)
    return col(name) + F.lit(0.0) if floating else col(name)


def _count(shared: Shared, held: Held) -> tuple[Buckets, bool]:
    """Buckets that changes touch, whether any takes back; late ones are counted and left out."""
    found, goes = [np.empty(0, np.int64)], False
    for batch in held.batches([BUCKET, _TIMELY, SIGN]):
        is_late = ~batch.column(_TIMELY).to_numpy(zero_copy_only=False).astype(np.bool_)
        back = batch.column(SIGN).to_numpy() < 0
        goes = goes or bool((back & ~is_late).any())
        shared.dropped = replace(
            shared.dropped,
            late=shared.dropped.late + int((is_late & ~back).sum()),
            late_changes=shared.dropped.late_changes + int((is_late & back).sum()),
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


def _old(shared: Shared, name: str, touched: Buckets, like: DataFrame) -> tuple[DataFrame, int]:
    """Kept rows of the touched buckets, and how many."""
    schema = T.StructType([f for f in like.schema.fields if f.name != SIGN])
    section = shared.state.path(name)
    if section is None or not len(touched):
        return shared.catalyst.empty(schema), 0
    part = shared.scratch / f"before-{name}"
    count = extract(section, touched, part)
    shared.rows = max(shared.rows, count)
    if count == 0:
        return shared.catalyst.empty(schema), 0
    return shared.read(part, schema), count


def _keep(
    shared: Shared, operator: Operator, at: int, rows: DataFrame, name: str, touched: Buckets
) -> DataFrame:
    """Takes the touched rows into the state as far as they matter; those that are there now."""
    flags = (THERE, UNMATCHED, _STAYS)
    columns = [BUCKET, AT, *[n for n in rows.schema.names if n not in (BUCKET, AT, *flags)]]
    marked = rows.select(
        *[col(name) for name in columns],
        *[col(name) for name in flags[:2]],
        (col(THERE) & stays(operator, at, rows, shared.new)).alias(_STAYS),
    )
    schema = T.StructType(marked.schema.fields[: len(columns)])
    bound = keeps(operator, at, shared.new)
    fresh: Iterator[pa.RecordBatch] = iter(())
    there = shared.catalyst.empty(schema)
    if len(touched):
        held = shared.hold(marked, f"after-{name}", columns)
        fresh = _staying(shared, held, columns, bound)
        there = held.where(THERE, *flags[1:])
    section = shared.scratch / "state" / name
    section.parent.mkdir(exist_ok=True)
    shared.state_rows += write_section(
        section,
        arrow_schema(schema),
        fresh,
        old=shared.state.path(name),
        replaced=touched,
        keep=bound,
    )
    shared.sections.append(section)
    return there


def _staying(
    shared: Shared, held: Held, columns: Sequence[str], bound: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in held.batches():
        unmatched = int(batch.column(UNMATCHED).to_numpy().sum())
        shared.dropped = replace(shared.dropped, unmatched=shared.dropped.unmatched + unmatched)
        mask = batch.column(_STAYS).to_numpy(zero_copy_only=False).astype(np.bool_)
        if bound is not None:
            mask &= batch.column(AT).to_numpy() >= bound
        yield batch.filter(pa.array(mask)).select(list(columns))
