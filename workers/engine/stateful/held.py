"""Rows held between two computations of Spark, and what else the operators of a run share.

Few rows lie in memory and are computed in one task, which interprets expressions: code for them
costs more to make than it saves. More go through files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from ...merge.columns import col
from ..catalyst import OPTIMIZER, Catalyst
from ..frames import sorted_batches
from .emit import arrow_schema
from .fold import BUCKET
from .operators import Moment
from .pieces import Changes
from .port import Dropped
from .state import BATCH_ROWS, State

FEW_ROWS = 20_000
"""Fewer rows stay in memory, unless told otherwise."""
SMALL_ROWS = 200_000
"""Fewer rows are computed in one task, unless told otherwise."""
LARGE_PARTITIONS = 16
FEW_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A broadcast is a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.execution.arrow.localRelationThreshold": "16m",
    # Expressions of a query are for tasks, which can be stopped, not for whoever plans.
    "spark.sql.optimizer.excludedRules": f"{OPTIMIZER}.ConvertToLocalRelation",
}
"""Of the session while rows are few."""


@dataclass(slots=True)
class Shared:
    """What the operators of a run share: its state, its moments, how finely its rows are cut."""

    catalyst: Catalyst
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
    only_come: bool = True
    """Nothing was kept of what the operators so far touched, so of their results nothing goes."""
    _set: tuple[int, bool] | None = None
    """What `cut` told the session last."""

    @property
    def small(self) -> bool:
        return self.rows <= SMALL_ROWS

    @property
    def few(self) -> bool:
        return self.partitions is None and self.rows <= FEW_ROWS

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

    def hold(self, frame: DataFrame, name: str, order: Sequence[str] = ()) -> Held:
        """Computed, and sorted (by bucket first) if an order is given."""
        cut, folder = self.cut(), self.scratch / name
        if self.few:
            return Held(self, frame.schema, self.collected(frame, order))
        if order:
            # Buckets are hashes: they lie evenly, so their ranges need no sampling.
            place = F.floor((col(BUCKET).cast("double") / 2.0**64 + 0.5) * cut)
            place = F.least(place, F.lit(cut - 1)).cast("int")
            frame = frame.repartitionById(cut, place).sortWithinPartitions(*_ascending(order))
        frame.write.option("compression", "snappy").parquet(str(folder))
        return Held(self, frame.schema, folder)

    def ordered(self, frame: DataFrame, order: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows of the result in their order."""
        cut = self.cut()
        if self.few:
            return iter(self.collected(frame, order).to_batches())
        return sorted_batches(frame, order, self.scratch, small=self.small, partitions=cut)

    def collected(self, frame: DataFrame, order: Sequence[str]) -> pa.Table:
        """Few rows, sorted if an order is given."""
        schema = arrow_schema(frame.schema)
        rows = frame.orderBy(*_ascending(order)) if order else frame
        return schema.empty_table() if self.catalyst.is_empty(rows) else rows.toArrow().cast(schema)

    def read(self, path: Path, schema: T.StructType) -> DataFrame:
        """Rows of a file or folder."""
        self.cut()
        if self.few and path.is_file():
            return self.lying(pq.read_table(path), schema)
        return self.catalyst.session.read.schema(schema).parquet(str(path))

    def lying(self, table: pa.Table, schema: T.StructType) -> DataFrame:
        """Rows in memory."""
        if not table.num_rows:
            return self.catalyst.empty(schema)
        return self.catalyst.session.createDataFrame(table, schema).coalesce(1)


@dataclass(frozen=True, slots=True)
class Held:
    """Rows that were computed: a table, or a folder of files."""

    shared: Shared
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

    def where(self, flag: str, *dropped: str) -> DataFrame:
        """Those with a flag, without it and other columns."""
        gone = (flag, *dropped)
        if isinstance(self.rows, pa.Table):
            schema = T.StructType([f for f in self.schema.fields if f.name not in gone])
            return self.shared.lying(self.rows.filter(self.rows[flag]).select(schema.names), schema)
        return self.shared.read(self.rows, self.schema).where(col(flag)).drop(*gone)


def _ascending(order: Sequence[str]) -> list[Column]:
    return [col(name).asc_nulls_first() for name in order]
