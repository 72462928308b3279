"""One operator in one run: which buckets are touched, what is kept of them, what changed.

The result over the rows kept before is compared with the result over those kept after, for the
buckets that new rows or the watermarks touch. What was emitted is thereby never stored.

Per side Spark computes twice: the changes, and the rows after them. Both are held, counted and
merged into the state by Arrow, and read by what comes next; plans stay short, and nothing is
computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ...slices.columns import col
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
from .held import Build, Held, Rows, Shared
from .operators import Operator, Side, Window, keeps, since, wakes
from .pieces import AT, GROUP, SEQ, SIGN
from .results import result, stays
from .state import Buckets, extract, waking, write_section

_TIMELY, _STAYS = "odf timely", "odf stays"
_FLAGS = (THERE, UNMATCHED, _STAYS)


def advance(shared: Shared, place: int, operator: Operator) -> Build:
    """Takes the run's changes into the state; the changes of the result."""
    names = [f"{place}-{at}.parquet" for at in range(len(operator.sides))]
    incoming, retracting, buckets = [], [], []
    first: list[int | None] = []
    for at, name in enumerate(names):
        held = shared.hold(partial(_incoming, shared, operator, place, at), f"new-{name}")
        touched, goes, start = _count(shared, held)
        first.append(start)
        incoming.append(held.where(_TIMELY))
        retracting.append(goes)
        bounds = wakes(operator, at, shared.prev, shared.new)
        buckets += [touched, waking(shared.state.path(name), bounds)]
    touched = np.unique(np.concatenate(buckets))
    shared.since[place] = since(operator, first, shared.prev, shared.new)
    before, after, kept = [], [], 0
    for at, name in enumerate(names):
        shaped = partial(_shaped, operator, operator.sides[at], incoming[at])
        old, count = _old(shared, name, touched, shared.schema(shaped, f"shaped-{name}"))
        kept += count
        added = not retracting[at] and not isinstance(operator, Window)
        counts = not count and _is_summed(operator)
        shared.decided((added, counts))
        rows = partial(_left, operator, at, old, shaped, added=added, counts=counts)
        before.append(old)
        after.append(_keep(shared, operator, place, at, rows, touched))
    shared.decided((bool(kept), shared.since[place] is None))
    shared.only_come = shared.only_come and not kept

    def changes() -> DataFrame:
        come = result(operator, [rows.frame() for rows in after], shared.now(place))
        if kept:
            went = result(operator, [rows.frame() for rows in before], shared.before(place))
            found = difference(went, come)
        else:
            found = all_come(come)
        return found.withColumn(SEQ, F.lit(None).cast("bigint"))

    return changes


def _incoming(shared: Shared, operator: Operator, place: int, at: int) -> DataFrame:
    side = operator.sides[at]
    frame = side.rows(shared.changes)
    keys = [_hashable(frame, name) for name in side.bucket]
    bound = shared.before(place).horizon(side.clock)
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


def _count(shared: Shared, held: Held) -> tuple[Buckets, bool, int | None]:
    """Buckets that changes touch, whether any takes back, the time of the first; late ones are
    counted and left out."""
    found, goes, first = [np.empty(0, np.int64)], False, []
    for batch in held.batches([BUCKET, AT, _TIMELY, SIGN]):
        is_late = ~batch.column(_TIMELY).to_numpy(zero_copy_only=False).astype(np.bool_)
        back = batch.column(SIGN).to_numpy() < 0
        goes = goes or bool((back & ~is_late).any())
        shared.dropped = replace(
            shared.dropped,
            late=shared.dropped.late + int((is_late & ~back).sum()),
            late_changes=shared.dropped.late_changes + int((is_late & back).sum()),
        )
        found.append(np.unique(batch.column(BUCKET).to_numpy()[~is_late]))
        if not is_late.all():
            first.append(pc.min(batch.column(AT).filter(pa.array(~is_late))).as_py())
    return np.unique(np.concatenate(found)), goes, min(first, default=None)


def _shaped(operator: Operator, side: Side, rows: Rows) -> DataFrame:
    """Changes in the form they are kept in."""
    changes = rows.frame()
    if not isinstance(operator, Window):
        return changes.select(*[col(name) for name in (BUCKET, AT, SEQ, *side.columns, SIGN)])
    by = [col(BUCKET), col(AT)]
    if not _is_summed(operator):
        columns = [col(name) for name in side.columns]
        return changes.select(*by, *columns, col(SIGN).cast("bigint").alias(COUNT))
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
    return changes.groupBy(*by, *[col(name) for name in operator.keys]).agg(
        *[total.alias(name) for name, total in totals.items()]
    )


def _left(
    operator: Operator, at: int, old: Rows, shaped: Build, *, added: bool, counts: bool
) -> DataFrame:
    """Rows left when changes are folded onto what is kept: `added` ones take nothing back,
    `counts` are there of new rows alone."""
    side = operator.sides[at]
    if added:
        return merely_added(old.frame(), shaped())
    if counts:
        return counted(shaped())
    if not isinstance(operator, Window):
        return folded_rows(old.frame(), shaped(), side.matched)
    if not _is_summed(operator):
        return folded_counts(old.frame(), shaped(), side.columns, ())
    new = shaped()
    sums = [name for name in new.schema.names if name not in (BUCKET, AT, COUNT, *operator.keys)]
    return folded_counts(old.frame(), new, operator.keys, sums)


def _is_summed(operator: Operator) -> bool:
    """Whether changes are kept, and shaped, as sums of each group."""
    return isinstance(operator, Window) and operator.from_sums


def _old(shared: Shared, name: str, touched: Buckets, like: T.StructType) -> tuple[Rows, int]:
    """Kept rows of the touched buckets, and how many."""
    schema = T.StructType([f for f in like.fields if f.name != SIGN])
    section, part, count = shared.state.path(name), shared.scratch / f"before-{name}", 0
    if section is not None and len(touched):
        count = extract(section, touched, part)
        shared.rows = max(shared.rows, count)
    return shared.lying(part.name, schema, part if count else None), count


def _keep(
    shared: Shared, operator: Operator, place: int, at: int, rows: Build, touched: Buckets
) -> Rows:
    """Takes the touched rows into the state as far as they matter; those that are there now."""
    name = f"{place}-{at}.parquet"

    def marked() -> DataFrame:
        frame = rows()
        stay = col(THERE) & stays(operator, at, frame, shared.now(place))
        columns = [BUCKET, AT, *[n for n in frame.schema.names if n not in (BUCKET, AT, *_FLAGS)]]
        named = [col(name) for name in (*columns, THERE, UNMATCHED)]
        return frame.select(*named, stay.alias(_STAYS))

    bound = keeps(operator, at, shared.new)
    fresh: Iterator[pa.RecordBatch] = iter(())
    if len(touched):
        held = shared.hold(marked, f"after-{name}", _data)
        schema = T.StructType([f for f in held.schema.fields if f.name not in _FLAGS])
        fresh = _staying(shared, held, schema.names, bound)
        there = held.where(THERE, UNMATCHED, _STAYS)
    else:
        found = shared.schema(marked, f"after-{name}")
        schema = T.StructType([f for f in found.fields if f.name not in _FLAGS])
        there = shared.lying(f"after-{name}", schema, None)
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


def _data(columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name not in _FLAGS]


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
