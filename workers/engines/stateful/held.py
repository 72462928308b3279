"""Rows held between two computations of Spark, and what else the operators of a run share.

Few rows lie in memory and are computed in one task, which interprets expressions: code for them
costs more to make than it saves; and what is computed was said at an earlier run (`prepared.py`).
More go through files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ...slices.columns import col
from ..spark.catalyst import OPTIMIZER, Catalyst, Node, kind
from ..spark.frames import sorted_batches
from .clock import Clock
from .emit import arrow_schema
from .fold import BUCKET
from .operators import Moment
from .pieces import Changes
from .port import Dropped
from .prepared import Form, Number, Prepared, Since, Watermark
from .state import BATCH_ROWS, State

FEW_ROWS = 20_000
"""Fewer rows stay in memory, unless told otherwise."""
SMALL_ROWS = 200_000
"""Fewer rows are computed in one task, unless told otherwise."""
LARGE_PARTITIONS = 16
FEW_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without code, each row is put into a cache per expression, which costs more than it saves.
    "spark.sql.subexpressionElimination.enabled": "false",
    # A broadcast is a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.execution.arrow.localRelationThreshold": "16m",
    # Expressions of a query are for tasks, which can be stopped, not for planning.
    "spark.sql.optimizer.excludedRules": f"{OPTIMIZER}.ConvertToLocalRelation",
}
"""Of the session while rows are few."""


Build = Callable[[], DataFrame]
"""Says what is computed. Asked for once where rows are few, so it may depend on nothing but the
query and what was decided (`Shared.decided`)."""
Order = Callable[[list[str]], Sequence[str]]
"""Columns to sort by, of those there are."""


@dataclass(slots=True)
class Shared:
    """What the operators of a run share: its state, its moments, how finely its rows are cut."""

    catalyst: Catalyst
    prepared: Prepared
    changes: Changes
    state: State
    scratch: Path
    prev: Moment
    new: Moment
    rows: int
    """How many rows are at hand; decides where they lie and how finely Spark cuts its work."""
    partitions: int | None
    """How finely Spark cuts its work whatever the rows, which then lie in files."""
    sections: list[Path] = field(default_factory=list)
    dropped: Dropped = field(default_factory=Dropped)
    state_rows: int = 0
    since: dict[int, int | None] = field(default_factory=dict)
    """By operator: left rows of a join before it meet what they met before."""
    only_come: bool = True
    """Nothing was kept of what the operators so far touched, so of their results nothing goes."""
    _decided: list[Hashable] = field(default_factory=list)
    _sources: dict[str, Build] = field(default_factory=dict)
    """Rows at hand, by name."""
    _plans: dict[str, Node] = field(default_factory=dict)
    _set: tuple[int, bool] | None = None
    """What `cut` told the session last."""

    @property
    def small(self) -> bool:
        return self.rows <= SMALL_ROWS

    @property
    def few(self) -> bool:
        return self.partitions is None and self.rows <= FEW_ROWS

    def before(self, operator: int) -> Marks:
        return Marks(self, operator, after=False)

    def now(self, operator: int) -> Marks:
        return Marks(self, operator, after=True)

    def decided(self, what: Hashable) -> None:
        """What is computed from here on depends on it."""
        self._decided.append(what)

    def cut(self) -> int:
        """Sets and gives the number of partitions of what is computed next."""
        cut = self.partitions or (1 if self.small else LARGE_PARTITIONS)
        if self._set != (cut, self.few):
            self._set = (cut, self.few)
            conf = self.catalyst.session.conf
            conf.set("spark.sql.shuffle.partitions", str(cut))
            for name, value in FEW_SETTINGS.items():
                if self.few:
                    conf.set(name, value)
                else:
                    conf.unset(name)
        return cut

    def hold(self, build: Build, name: str, order: Order | None = None) -> Held:
        """Computed, and sorted (by bucket first) if an order is given."""
        cut, folder = self.cut(), self.scratch / name
        if self.few:
            schema, rows = self.collected(build, name, order)
            return Held(self, name, schema, rows)
        frame = build()
        schema = frame.schema
        if order is not None:
            # Buckets are hashes: they lie evenly, so their ranges need no sampling.
            place = F.floor((col(BUCKET).cast("double") / 2.0**64 + 0.5) * cut)
            place = F.least(place, F.lit(cut - 1)).cast("int")
            keys = _ascending(order(schema.names))
            frame = frame.repartitionById(cut, place).sortWithinPartitions(*keys)
        frame.write.option("compression", "snappy").parquet(str(folder))
        return Held(self, name, schema, folder)

    def ordered(
        self, build: Build, order: Sequence[str]
    ) -> tuple[T.StructType, Iterator[pa.RecordBatch]]:
        """Rows of the result in their order."""
        cut = self.cut()
        if self.few:
            schema, rows = self.collected(build, "result", lambda _: order)
            return schema, iter(rows.to_batches())
        frame = build()
        batches = sorted_batches(frame, order, self.scratch, small=self.small, partitions=cut)
        return frame.schema, batches

    def schema(self, build: Build, name: str) -> T.StructType:
        """Columns of what would be computed."""
        self.cut()
        return self._form(name, build).schema if self.few else build().schema

    def collected(
        self, build: Build, name: str, order: Order | None
    ) -> tuple[T.StructType, pa.Table]:
        """Few rows, sorted if an order is given."""

        def sorted_build() -> DataFrame:
            frame = build()
            return frame.orderBy(*_ascending(order(frame.columns))) if order else frame

        form = self._form(f"rows of {name}", sorted_build)
        frame = self.prepared.bound(form, self._plan, self._value)
        schema = arrow_schema(form.schema)
        if self.catalyst.is_empty(frame):
            return form.schema, schema.empty_table()
        return form.schema, frame.toArrow().cast(schema)

    def lying(self, name: str, schema: T.StructType, rows: pa.Table | Path | None) -> Rows:
        """Rows in memory, in a file or a folder, or none."""
        if isinstance(rows, Path) and rows.is_file() and self.few:
            rows = pq.read_table(rows)
        session = self.catalyst.session

        def source() -> DataFrame:
            match rows:
                case pa.Table() if rows.num_rows:
                    return session.createDataFrame(rows, schema)
                case Path():
                    return session.read.schema(schema).parquet(str(rows))
                case _:
                    return self.catalyst.empty(schema)

        together = self.few or isinstance(rows, pa.Table)
        return self.given(name, schema, source, together=together)

    def given(
        self, name: str, schema: T.StructType, source: Build, *, together: bool = False
    ) -> Rows:
        """Rows of a source."""
        self._sources[name] = source
        return Rows(self, name, schema, together)

    def rows_of(self, rows: Rows) -> DataFrame:
        if self.prepared.is_open:
            frame = self.prepared.leaf(rows.name, rows.schema)
        else:
            self.cut()
            frame = self._sources[rows.name]()
        return frame.coalesce(1) if rows.together else frame

    def number(self, number: Number) -> Column | None:
        value = self._value(number)
        if value is None or not self.prepared.is_open:
            return None if value is None else F.lit(value)
        return self.prepared.number(number)

    def _form(self, stage: str, build: Build) -> Form:
        return self.prepared.form((stage, *self._decided), build)

    def _plan(self, name: str) -> Node:
        if (known := self._plans.get(name)) is not None:
            return known
        plan = self.catalyst.plan(self._sources[name]())
        if kind(plan) == "LocalRelation":  # others have columns that a plan may have once
            self._plans[name] = plan
        return plan

    def _value(self, number: Number) -> int | None:
        if isinstance(number, Since):
            at = self.since.get(number.operator)
            return None if at is None else at + number.plus
        moment = self.new if number.after else self.prev
        at = moment.horizon(number.clock) if number.late else moment.promise(number.clock)
        return None if at is None else at + number.plus


@dataclass(frozen=True, slots=True)
class Marks:
    """What watermarks promise at a moment of a run, as columns of its queries."""

    shared: Shared
    operator: int
    after: bool

    def promise(self, clock: Clock, plus: int = 0) -> Column | None:
        return self.shared.number(Watermark(self.after, False, clock, plus))

    def horizon(self, clock: Clock) -> Column | None:
        return self.shared.number(Watermark(self.after, True, clock))

    def since(self, plus: int = 0) -> Column | None:
        """Nothing of the left side changes before it."""
        return self.shared.number(Since(self.operator, plus))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows at hand, to compute with."""

    shared: Shared
    name: str
    schema: T.StructType
    together: bool
    """In one task, whatever Spark made of their number."""

    def frame(self) -> DataFrame:
        return self.shared.rows_of(self)


@dataclass(frozen=True, slots=True)
class Held:
    """Rows that were computed: a table, or a folder of files."""

    shared: Shared
    name: str
    schema: T.StructType
    rows: pa.Table | Path

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """In their order."""
        wanted = None if columns is None else list(columns)
        if isinstance(self.rows, pa.Table):
            yield from (self.rows.select(wanted) if wanted else self.rows).to_batches()
            return
        for part in sorted(self.rows.glob("part-*.parquet")):
            yield from pq.ParquetFile(part).iter_batches(BATCH_ROWS, columns=wanted)

    def where(self, flag: str, *dropped: str) -> Rows:
        """Those with a flag, without it and other columns."""
        gone = (flag, *dropped)
        schema = T.StructType([f for f in self.schema.fields if f.name not in gone])
        if isinstance(self.rows, pa.Table):
            rows = self.rows.filter(self.rows[flag]).select(schema.names)
            return self.shared.lying(self.name, schema, rows)
        path, read = self.rows, self.shared.catalyst.session.read.schema(self.schema)

        def source() -> DataFrame:
            return read.parquet(str(path)).where(col(flag)).drop(*gone)

        return self.shared.given(self.name, schema, source)


def _ascending(order: Sequence[str]) -> list[Column]:
    return [col(name).asc_nulls_first() for name in order]
