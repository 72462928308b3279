"""Advance one operator in one run: find the touched buckets, update their rows, return the changes.

For the buckets that new rows or watermarks touch, a step compares the result over the rows kept
before with the result over the rows kept after. So the results themselves are never stored.

Spark computes twice per side: the changes, and the rows after them.

One run of a stateful query: from new rows and watermarks to changes of the result and new state.

A run opens the state, advances one operator after the other (`step.py`), writes the changes of the
result, and writes the state.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_storage.runtime.sorted_numbers import distinct

from ...slices.schema import Operation
from ..exchange import worker_side as exchange
from ..port.port import InvalidQuery
from ..spark.catalyst import col
from ..spark.plan import reason
from .operators import JoinSide, Moment, Moments, Operator, Window, back, keeps, since, wakes
from .plan import Plan
from .query import NewRows, StatefulResult
from .results import (
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
    result,
    stays,
)
from .state import (
    ORDER,
    Buckets,
    Computed,
    Context,
    arrow_schema,
    extract,
    open_state,
    told,
    waking,
    write,
    write_section,
    write_state,
)
from .times import AT, GROUP, SEQ, SIGN, StateChanges, framed

_TIMELY, _STAYS = "odf timely", "odf stays"
_FLAGS = (THERE, UNMATCHED, _STAYS)


@dataclass(frozen=True, slots=True)
class Made:
    """Changes of the result of an operator."""

    changes: DataFrame
    only_come: bool
    """Whether all changes are additions, because the touched buckets had no rows before."""


@dataclass(frozen=True, slots=True)
class _New:
    """Changes of one side that are not late."""

    rows: DataFrame
    touched: Buckets
    retracts: bool
    """Whether any change removes a row."""
    first: int | None
    """Time of the earliest change."""


def advance(context: Context, changes: StateChanges, place: int, operator: Operator) -> Made:
    """Add the changes of a run to the state of an operator; return the changes of its result."""
    names = [f"{place}-{at}.parquet" for at in range(len(operator.sides))]
    new = [_new(context, changes, operator, place, at) for at in range(len(operator.sides))]
    buckets = [each.touched for each in new]
    for at, name in enumerate(names):
        bounds = wakes(operator, at, context.prev, context.new)
        buckets.append(waking(context.state.path(name), bounds))
    touched = distinct(np.concatenate(buckets))
    start = since(operator, [each.first for each in new], context.prev, context.new)
    before, after, kept = [], [], 0
    for at, name in enumerate(names):
        shaped = _shaped(operator, operator.sides[at], new[at].rows)
        old, count = _old(context, name, touched, shaped.schema)
        rows = _left(operator, at, old, shaped, retracts=new[at].retracts, fresh=not count)
        before.append(old)
        after.append(_keep(context, operator, at, name, rows, touched))
        kept += count
    found = result(operator, after, context.new, start)
    if kept:
        found = difference(result(operator, before, context.prev, start), found)
    else:
        found = all_come(found)
    return Made(found.withColumn(SEQ, F.lit(None).cast("bigint")), only_come=not kept)


def _new(context: Context, changes: StateChanges, operator: Operator, place: int, at: int) -> _New:
    side = operator.sides[at]
    frame = side.rows(changes)
    keys = [_hashable(frame, name) for name in side.bucket]
    bound = context.prev.horizon(side.clock)
    # Rows without a time count as late.
    timely = col(AT).isNotNull() if bound is None else F.coalesce(col(AT) >= bound, F.lit(False))
    frame = frame.select(
        *[col(name) for name in frame.schema.names if name != GROUP],
        timely.alias(_TIMELY),
        F.xxhash64(F.lit(place), *keys).alias(BUCKET),
    )
    computed = context.compute(frame, f"new-{place}-{at}")
    touched, retracts, first = _count(context, computed)
    rows = context.read(computed.files, computed.schema).where(col(_TIMELY)).drop(_TIMELY)
    return _New(rows, touched, retracts, first)


def _hashable(frame: DataFrame, name: str) -> Column:
    """Return the column for the hash. Zero and minus zero are equal, so they must hash equally."""
    floating = isinstance(frame.schema[name].dataType, T.FloatType | T.DoubleType)
    return col(name) + F.lit(0.0) if floating else col(name)


def _count(context: Context, changes: Computed) -> tuple[Buckets, bool, int | None]:
    """Return the buckets that changes touch, whether any change removes a row, and the time of the
    earliest. Late changes are counted as dropped and left out."""
    found, retracts, first = [np.empty(0, np.int64)], False, []
    for batch in changes.batches([BUCKET, AT, _TIMELY, SIGN]):
        is_late = ~batch.column(_TIMELY).to_numpy(zero_copy_only=False).astype(np.bool_)
        back = batch.column(SIGN).to_numpy() < 0
        retracts = retracts or bool((back & ~is_late).any())
        context.dropped = replace(
            context.dropped,
            late=context.dropped.late + int((is_late & ~back).sum()),
            late_changes=context.dropped.late_changes + int((is_late & back).sum()),
        )
        found.append(distinct(batch.column(BUCKET).to_numpy()[~is_late]))
        if not is_late.all():
            first.append(pc.min(batch.column(AT).filter(pa.array(~is_late))).as_py())
    return distinct(np.concatenate(found)), retracts, min(first, default=None)


def _shaped(operator: Operator, side: JoinSide, changes: DataFrame) -> DataFrame:
    """Return changes in the form in which the state keeps rows."""
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
    operator: Operator, at: int, old: DataFrame, new: DataFrame, *, retracts: bool, fresh: bool
) -> DataFrame:
    """Return the rows left after changes are applied to old ones. `retracts` says whether any
    change removes a row, and `fresh` that there are no old rows."""
    if not isinstance(operator, Window):
        if not retracts:
            return merely_added(old, new)
        return folded_rows(old, new, operator.sides[at].matched)
    if not _is_summed(operator):
        return folded_counts(old, new, operator.sides[at].columns, ())
    if fresh:
        return counted(new)
    sums = [name for name in new.schema.names if name not in (BUCKET, AT, COUNT, *operator.keys)]
    return folded_counts(old, new, operator.keys, sums)


def _is_summed(operator: Operator) -> bool:
    """Return whether the state keeps sums of each group instead of rows."""
    return isinstance(operator, Window) and operator.from_sums


def _old(
    context: Context, name: str, touched: Buckets, like: T.StructType
) -> tuple[DataFrame, int]:
    """Return the kept rows of the touched buckets, and their number."""
    schema = T.StructType([f for f in like.fields if f.name != SIGN])
    section, part, count = context.state.path(name), context.scratch / f"before-{name}", 0
    if section is not None and len(touched):
        count = extract(section, touched, part)
        context.expect(count)
    return context.read([part] if count else [], schema), count


def _keep(
    context: Context, operator: Operator, at: int, name: str, rows: DataFrame, touched: Buckets
) -> DataFrame:
    """Write those touched rows to the state that still matter; return all rows that exist now."""
    stay = col(THERE) & stays(operator, at, rows, context.new)
    columns = [BUCKET, AT, *[n for n in rows.schema.names if n not in (BUCKET, AT, *_FLAGS)]]
    named = [col(each) for each in (*columns, THERE, UNMATCHED)]
    rows = rows.select(*named, stay.alias(_STAYS))
    bound = keeps(operator, at, context.new)
    files: list[Path] = []
    fresh: Iterator[pa.RecordBatch] = iter(())
    if len(touched):
        computed = context.compute_by_bucket(rows, f"after-{name}", columns)
        files, fresh = computed.files, _staying(context, computed, columns, bound)
    there = context.read(files, rows.schema).where(col(THERE)).select(*map(col, columns))
    section = context.scratch / "state" / name
    section.parent.mkdir(exist_ok=True)
    context.state_rows += write_section(
        section,
        arrow_schema(there.schema),
        fresh,
        old=context.state.path(name),
        replaced=touched,
        keep=bound,
    )
    context.sections.append(section)
    return there


def _staying(
    context: Context, rows: Computed, columns: Sequence[str], bound: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in rows.batches():
        unmatched = int(batch.column(UNMATCHED).to_numpy().sum())
        context.dropped = replace(context.dropped, unmatched=context.dropped.unmatched + unmatched)
        mask = batch.column(_STAYS).to_numpy(zero_copy_only=False).astype(np.bool_)
        if bound is not None:
            mask &= batch.column(AT).to_numpy() >= bound
        yield batch.filter(pa.array(mask)).select(list(columns))


NANOS = 1_000


def run(
    plan: Plan,
    new_rows: Sequence[NewRows],
    *,
    state: Path | None,
    new_state: Path,
    output: Path,
    scratch: Path,
    partitions: int | None = None,
) -> StatefulResult:
    """Add new rows to the state, and write the changes of the result.

    `partitions` is the number of Spark's partitions; the result does not depend on it.

    Raises:
        ForeignState: the state belongs to another query.
        InvalidQuery: Spark cannot compute the query over these rows.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        try:
            return StateRun(plan, new_rows, state, Path(folder), partitions).finish(
                new_state, output
            )
        except (PySparkException, Py4JJavaError) as bad:
            if (failed := exchange.failed(bad)) is not None:
                raise failed from bad
            raise InvalidQuery(reason(bad)) from None


class StateRun:
    """One run. It supplies the parts of the plan with rows, as `StateChanges`."""

    def __init__(
        self,
        plan: Plan,
        new_rows: Sequence[NewRows],
        state: Path | None,
        scratch: Path,
        partitions: int | None,
    ) -> None:
        self.plan = plan
        self._new = {given.alias: given for given in new_rows}
        kept = open_state(state, plan.fingerprint, scratch / "old")
        before = {given.alias: kept.watermarks.get(given.alias) for given in plan.inputs}
        after = {alias: _newer(at, self._new.get(alias)) for alias, at in before.items()}
        self._watermarks = after
        self.results: list[Made] = []
        self.context = Context(
            catalyst=plan.catalyst,
            state=kept,
            scratch=scratch,
            prev=self._moment(before),
            new=self._moment(after),
            asked_partitions=partitions,
        )
        self.context.expect(sum(_row_count(given) for given in new_rows))

    def finish(self, new_state: Path, output: Path) -> StatefulResult:
        plan, context = self.plan, self.context
        for place, operator in enumerate(plan.operators):
            self.results.append(advance(context, self, place, operator))
        frame = told(
            framed(plan.catalyst, plan.part, self, plan.columns),
            [name for name, _ in plan.columns],
            operation=plan.vocab.operation_type_column,
            event_time=plan.vocab.event_time_column,
            only_come=all(made.only_come for made in self.results) and not plan.part.passes,
        )
        result = context.compute_in_order(frame, "result", ORDER)
        names = [plan.vocab.operation_type_column, *[name for name, _ in plan.columns]]
        schema = arrow_schema(T.StructType([result.schema[name] for name in names]))
        count = write(result.batches(names), schema, output)
        write_state(new_state, plan.fingerprint, self._watermarks, context.sections)
        return StatefulResult(
            rows=count,
            schema=schema,
            watermark=_instant(plan.watermark.at(self._watermarks)),
            dropped=context.dropped,
            state_rows=context.state_rows,
        )

    def input(self, alias: str) -> DataFrame:
        known = next(each for each in self.plan.inputs if each.alias == alias)
        frame = self._rows(alias, known.vocab)
        code = col(known.vocab.operation_type_column)
        offset = col(known.vocab.offset_column).cast("bigint")
        undoing = code.isin(int(Operation.RETRACT), int(Operation.CORRECT_FROM))
        # Both rows of a correction get the same group, so that they stay a correction if no
        # operator changes them.
        pair = F.when(code == int(Operation.CORRECT_TO), offset - 1).otherwise(offset)
        return frame.select(
            "*",
            F.when(undoing, -1).otherwise(1).alias(SIGN),
            offset.alias(SEQ),
            F.xxhash64(pair).alias(GROUP),
        )

    def made(self, operator: int) -> DataFrame:
        return self.results[operator].changes

    def _rows(self, alias: str, vocab: Vocab) -> DataFrame:
        given, schema = self._new.get(alias), self.plan.schemas[alias]
        if given is None or given.interval is None:
            return self.context.read((), schema)
        frame = self.context.read(given.paths, schema)
        offset = col(vocab.offset_column)
        frame = frame.where(offset.between(given.interval.start, given.interval.end))
        many = self.context.asked_partitions
        return frame if many is None else frame.repartition(many)

    def _moment(self, watermarks: Moments) -> Moment:
        return Moment(watermarks=watermarks, horizons=back(watermarks, self.plan.lateness))


def _newer(before: int | None, given: NewRows | None) -> int | None:
    """Return the later of two watermarks in microseconds, because watermarks never decrease."""
    now = None if given is None or given.watermark is None else given.watermark.ns // NANOS
    known = [at for at in (before, now) if at is not None]
    return max(known) if known else None


def _instant(micros: int | None) -> Instant | None:
    return None if micros is None else Instant(micros * NANOS)


def _row_count(given: NewRows) -> int:
    if given.interval is None:
        return 0
    return sum(pq.ParquetFile(path).metadata.num_rows for path in given.paths)
