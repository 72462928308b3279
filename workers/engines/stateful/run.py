"""One run of a stateful query: new rows and watermarks in, changes of the result and state out.

The order of things is here: open the state, take one operator after the other a step on
(`step.py`), tell the changes of the result, write the state.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from odf_node.protocol.instant import Instant

from ...slices.columns import Operation, col
from ..port.port import InvalidQuery
from ..spark import exchange
from ..spark.errors import reason
from ..spark.frames import read_parquet
from .clock import Moments, back
from .emit import ORDER, arrow_schema, told, write
from .held import Build, Shared
from .operators import Moment
from .pieces import GROUP, SEQ, SIGN, framed
from .plan import Plan
from .port import NewRows, Result
from .state import open_state, write_state
from .step import advance

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
    """Take new rows into the state and write the changes of the result.

    `partitions` is how finely Spark cuts its work; it never shows in the result.

    Raises:
        ForeignState: the state is that of another query.
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
    """One run. Gives the parts of the plan their rows (`Changes`)."""

    def __init__(
        self,
        plan: Plan,
        new_rows: Sequence[NewRows],
        state: Path | None,
        scratch: Path,
        partitions: int | None,
    ) -> None:
        self._plan, self._scratch = plan, scratch
        self._new = {given.alias: given for given in new_rows}
        kept = open_state(state, plan.fingerprint, scratch / "old")
        before = {given.alias: kept.watermarks.get(given.alias) for given in plan.inputs}
        after = {alias: _newer(at, self._new.get(alias)) for alias, at in before.items()}
        self._watermarks = after
        self._made: list[Build] = []
        self._shared = Shared(
            catalyst=plan.catalyst,
            prepared=plan.prepared,
            changes=self,
            state=kept,
            scratch=scratch,
            prev=self._moment(before),
            new=self._moment(after),
            rows=sum(_row_count(given) for given in new_rows),
            partitions=partitions,
        )
        self._inputs = {
            alias: self._shared.given(f"input {alias}", schema, partial(self._read, alias))
            for alias, schema in plan.schemas.items()
        }
        # Where nothing is promised, other things are computed.
        self._shared.decided(tuple(at is None for at in (*before.values(), *after.values())))

    def finish(self, new_state: Path, output: Path) -> Result:
        plan, shared = self._plan, self._shared
        for place, operator in enumerate(plan.operators):
            self._made.append(advance(shared, place, operator))
        names = [name for name, _ in plan.columns]
        operation = plan.vocab.operation_type_column
        found, batches = shared.ordered(self._told, ORDER)
        schema = arrow_schema(T.StructType([found[name] for name in (operation, *names)]))
        count = write(batches, schema, output)
        write_state(new_state, plan.fingerprint, self._watermarks, shared.sections)
        return Result(
            rows=count,
            schema=schema,
            watermark=_instant(plan.watermark.at(self._watermarks)),
            dropped=shared.dropped,
            state_rows=shared.state_rows,
        )

    def _told(self) -> DataFrame:
        plan = self._plan
        return told(
            framed(plan.catalyst, plan.part, self, plan.columns),
            [name for name, _ in plan.columns],
            operation=plan.vocab.operation_type_column,
            event_time=plan.vocab.event_time_column,
            only_come=self._shared.only_come and not plan.part.passes,
        )

    def input(self, alias: str) -> DataFrame:
        schema = self._plan.schemas[alias]
        vocab = next(each.vocab for each in self._plan.inputs if each.alias == alias)
        frame = self._inputs[alias].frame()
        code, offset = col(vocab.operation_type_column), col(vocab.offset_column).cast("bigint")
        undoing = code.isin(int(Operation.RETRACT), int(Operation.CORRECT_FROM))
        # Both rows of a correction belong together wherever rows are passed on as they came.
        pair = F.when(code == int(Operation.CORRECT_TO), offset - 1).otherwise(offset)
        return frame.select(
            *[col(name) for name in schema.names],
            F.when(undoing, -1).otherwise(1).alias(SIGN),
            offset.alias(SEQ),
            F.xxhash64(pair).alias(GROUP),
        )

    def made(self, operator: int) -> DataFrame:
        return self._made[operator]()

    def _read(self, alias: str) -> DataFrame:
        given, shared = self._new.get(alias), self._shared
        if given is None or given.interval is None or not given.paths:
            return shared.catalyst.empty(self._plan.schemas[alias])
        known = next(each for each in self._plan.inputs if each.alias == alias)
        frame = read_parquet(shared.catalyst.session, given.paths, known.schema)
        offset = col(known.vocab.offset_column)
        frame = frame.where(offset.between(given.interval.start, given.interval.end))
        if shared.cut() == 1:
            return frame.coalesce(1)
        return frame if shared.partitions is None else frame.repartition(shared.partitions)

    def _moment(self, watermarks: Moments) -> Moment:
        return Moment(watermarks=watermarks, horizons=back(watermarks, self._plan.lateness))


def _newer(before: int | None, given: NewRows | None) -> int | None:
    """Watermarks never go back."""
    now = None if given is None or given.watermark is None else given.watermark.ns // NANOS
    known = [at for at in (before, now) if at is not None]
    return max(known) if known else None


def _instant(micros: int | None) -> Instant | None:
    return None if micros is None else Instant(micros * NANOS)


def _row_count(given: NewRows) -> int:
    if given.interval is None:
        return 0
    return sum(pq.ParquetFile(path).metadata.num_rows for path in given.paths)
