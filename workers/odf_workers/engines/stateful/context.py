"""The data that the operators of a run share: state, watermarks, counters and files.

A run computes in a few Spark jobs. Each job writes its rows to files; Arrow counts them and merges
them into the state, and Spark reads them for the next job. So plans stay short, and Spark computes
nothing twice.
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

from ..spark.catalyst import Catalyst
from ..spark.columns import col
from ..spark.frames import read_files, written_files
from .fold import BUCKET
from .operators import Moment
from .port import Dropped
from .state import BATCH_ROWS, State

FEW_ROWS = 20_000
"""Limit of rows for which Spark interprets expressions, because generated code costs more time than
it saves."""
SMALL_ROWS = 200_000
"""Limit of rows that one task computes."""
LARGE_PARTITIONS = 16
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without generated code, Spark caches each row per expression, which costs more than it saves.
    "spark.sql.subexpressionElimination.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Computed:
    """Rows that Spark computed, as files in their order."""

    files: list[Path]
    schema: T.StructType

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        wanted = None if columns is None else list(columns)
        for path in self.files:
            yield from pq.ParquetFile(path).iter_batches(BATCH_ROWS, columns=wanted)


@dataclass(slots=True)
class Context:
    """The data of one run that its operators use and update."""

    catalyst: Catalyst
    state: State
    scratch: Path
    prev: Moment
    new: Moment
    asked_partitions: int | None
    """Requested number of partitions; None chooses it by the number of rows."""
    partitions: int = 1
    dropped: Dropped = field(default_factory=Dropped)
    sections: list[Path] = field(default_factory=list)
    """Files of the sections of the new state."""
    state_rows: int = 0
    _rows: int = 0

    def expect(self, rows: int) -> None:
        """Set up Spark for at least so many rows: its partitions, and whether it generates code."""
        self._rows = max(self._rows, rows)
        by_rows = 1 if self._rows <= SMALL_ROWS else LARGE_PARTITIONS
        self.partitions = self.asked_partitions or by_rows
        conf = self.catalyst.session.conf
        conf.set("spark.sql.shuffle.partitions", str(self.partitions))
        for name, value in INTERPRETED.items():
            if self.asked_partitions is None and self._rows <= FEW_ROWS:
                conf.set(name, value)
            else:
                conf.unset(name)

    def read(self, files: Sequence[Path], schema: T.StructType) -> DataFrame:
        """Read rows of files; in one task if the run has one partition."""
        if not files:
            return self.catalyst.empty(schema)
        frame = read_files(self.catalyst.session, files, schema)
        return frame.coalesce(1) if self.partitions == 1 else frame

    def compute(self, frame: DataFrame, name: str) -> Computed:
        """Compute the rows, in any order."""
        return Computed(written_files(frame, self.scratch, name), frame.schema)

    def compute_by_bucket(self, frame: DataFrame, name: str, order: Sequence[str]) -> Computed:
        """Compute the rows in an order that begins with their bucket."""
        if self.partitions == 1:
            return self._sorted(frame.coalesce(1), name, order)
        # Buckets are hashes and evenly distributed, so their ranges need no sampling.
        part = F.floor((col(BUCKET).cast("double") / 2.0**64 + 0.5) * self.partitions)
        part = F.least(part, F.lit(self.partitions - 1)).cast("int")
        return self._sorted(frame.repartitionById(self.partitions, part), name, order)

    def compute_in_order(self, frame: DataFrame, name: str, order: Sequence[str]) -> Computed:
        """Compute the rows in the given order."""
        if self.partitions == 1:
            return self._sorted(frame.coalesce(1), name, order)
        parts = frame.repartitionByRange(self.partitions, *_ascending(order))
        return self._sorted(parts, name, order)

    def _sorted(self, parts: DataFrame, name: str, order: Sequence[str]) -> Computed:
        """Sort each part and compute the rows. The parts must be in order already."""
        return self.compute(parts.sortWithinPartitions(*_ascending(order)), name)


def _ascending(order: Sequence[str]) -> list[Column]:
    return [col(name).asc_nulls_first() for name in order]
