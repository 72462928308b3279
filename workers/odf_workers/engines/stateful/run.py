"""One run of a stateful query: from new rows and watermarks to changes of the result and new state.

A run opens the state, advances one operator after the other (`step.py`), writes the changes of the
result, and writes the state.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant

from ...slices.columns import Operation
from ..exchange import worker_side as exchange
from ..port.port import InvalidQuery
from ..spark.columns import col
from ..spark.errors import reason
from .clock import Moments, back
from .context import Context
from .emit import ORDER, arrow_schema, told, write
from .operators import Moment
from .pieces import GROUP, SEQ, SIGN, framed
from .plan import Plan
from .port import NewRows, Result
from .state import open_state, write_state
from .step import Made, advance

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
) -> Result:
    """Add new rows to the state, and write the changes of the result.

    `partitions` is the number of Spark's partitions; the result does not depend on it.

    Raises:
        ForeignState: the state belongs to another query.
        InvalidQuery: Spark cannot compute the query over these rows.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        try:
            return _Run(plan, new_rows, state, Path(folder), partitions).finish(new_state, output)
        except (PySparkException, Py4JJavaError) as bad:
            if (failed := exchange.failed(bad)) is not None:
                raise failed from bad
            raise InvalidQuery(reason(bad)) from None


class _Run:
    """One run. It supplies the parts of the plan with rows, as `Changes`."""

    def __init__(
        self,
        plan: Plan,
        new_rows: Sequence[NewRows],
        state: Path | None,
        scratch: Path,
        partitions: int | None,
    ) -> None:
        self._plan = plan
        self._new = {given.alias: given for given in new_rows}
        kept = open_state(state, plan.fingerprint, scratch / "old")
        before = {given.alias: kept.watermarks.get(given.alias) for given in plan.inputs}
        after = {alias: _newer(at, self._new.get(alias)) for alias, at in before.items()}
        self._watermarks = after
        self._made: list[Made] = []
        self._context = Context(
            catalyst=plan.catalyst,
            state=kept,
            scratch=scratch,
            prev=self._moment(before),
            new=self._moment(after),
            asked_partitions=partitions,
        )
        self._context.expect(sum(_row_count(given) for given in new_rows))

    def finish(self, new_state: Path, output: Path) -> Result:
        plan, context = self._plan, self._context
        for place, operator in enumerate(plan.operators):
            self._made.append(advance(context, self, place, operator))
        frame = told(
            framed(plan.catalyst, plan.part, self, plan.columns),
            [name for name, _ in plan.columns],
            operation=plan.vocab.operation_type_column,
            event_time=plan.vocab.event_time_column,
            only_come=all(made.only_come for made in self._made) and not plan.part.passes,
        )
        result = context.compute_in_order(frame, "result", ORDER)
        names = [plan.vocab.operation_type_column, *[name for name, _ in plan.columns]]
        schema = arrow_schema(T.StructType([result.schema[name] for name in names]))
        count = write(result.batches(names), schema, output)
        write_state(new_state, plan.fingerprint, self._watermarks, context.sections)
        return Result(
            rows=count,
            schema=schema,
            watermark=_instant(plan.watermark.at(self._watermarks)),
            dropped=context.dropped,
            state_rows=context.state_rows,
        )

    def input(self, alias: str) -> DataFrame:
        known = next(each for each in self._plan.inputs if each.alias == alias)
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
        return self._made[operator].changes

    def _rows(self, alias: str, vocab: Vocab) -> DataFrame:
        given, schema = self._new.get(alias), self._plan.schemas[alias]
        if given is None or given.interval is None:
            return self._context.read((), schema)
        frame = self._context.read(given.paths, schema)
        offset = col(vocab.offset_column)
        frame = frame.where(offset.between(given.interval.start, given.interval.end))
        many = self._context.asked_partitions
        return frame if many is None else frame.repartition(many)

    def _moment(self, watermarks: Moments) -> Moment:
        return Moment(watermarks=watermarks, horizons=back(watermarks, self._plan.lateness))


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
