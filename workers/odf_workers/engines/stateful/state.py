"""The checkpoint: the state between two runs, as one deterministic file.

It is a tar of a `manifest.json` (the query's fingerprint, the watermarks) and one Parquet file per
side of an operator. Rows are sorted by `odf bucket`, a hash of the columns that decide which rows
are combined. A step processes only the buckets that it touches, and copies the others in batches,
so memory does not grow with the state. Equal rows give equal bytes: rows have one order, one writer
writes them in batches of fixed size, and the tar has no owners or times.

The data that the operators of a run share: state, watermarks, counters and files.

A run computes in a few Spark jobs. Each job writes its rows to files; Arrow counts them and merges
them into the state, and Spark reads them for the next job. So plans stay short, and Spark computes
nothing twice.

Turn changes of the result into rows of the output: operations, corrections, one order.

Equal rows that were removed and added cancel out. In each group, the first removed and the first
added row of the rest form a correction, then the second ones, and so on; the others are retractions
and appends. Rows are sorted by event time, then by all columns, nulls first. A −C is directly
before its +C, and both have the position of the +C. Spark's distribution of rows has no effect.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.columns.arrow_digest import windows
from odf_storage.runtime.sorted_numbers import distinct

from ...slices.schema import Operation
from ..spark.catalyst import Catalyst, col
from ..spark.frames import read_files, written_files
from .operators import NOTHING, Bounds, Moment
from .query import Dropped, ForeignState
from .results import BUCKET, difference_of
from .times import AT, GROUP, SIGN

FORMAT = 1
MANIFEST = "manifest.json"
BATCH_ROWS = 65_536
ROW_GROUP_ROWS = 1 << 18
Buckets = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class OperatorState:
    """An unpacked checkpoint, or an empty one."""

    folder: Path
    watermarks: dict[str, int | None] = field(default_factory=dict)
    sections: frozenset[str] = frozenset()

    def path(self, section: str) -> Path | None:
        return self.folder / section if section in self.sections else None


def open_state(path: Path | None, fingerprint: str, folder: Path) -> OperatorState:
    """Unpack a checkpoint. Raise `ForeignState` if another query or another engine wrote it."""
    folder.mkdir(parents=True, exist_ok=True)
    if path is None:
        return OperatorState(folder)
    try:
        with tarfile.open(path, "r:") as tar:
            tar.extractall(folder, filter="data")
        manifest = json.loads((folder / MANIFEST).read_text())
    except (tarfile.TarError, OSError, ValueError) as bad:
        raise ForeignState(f"the checkpoint is none of this engine: {bad}") from None
    if manifest.get("format") != FORMAT or manifest.get("query") != fingerprint:
        raise ForeignState("the checkpoint was written for another query: reset the derivative")
    return OperatorState(folder, manifest["watermarks"], frozenset(manifest["sections"]))


def write_state(
    path: Path, fingerprint: str, watermarks: dict[str, int | None], sections: Sequence[Path]
) -> None:
    """Pack sections into a checkpoint."""
    manifest = {
        "format": FORMAT,
        "query": fingerprint,
        "watermarks": watermarks,
        "sections": [section.name for section in sections],
    }
    text = json.dumps(manifest, sort_keys=True).encode()
    with tarfile.open(path, "w:", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(_entry(MANIFEST, len(text)), io.BytesIO(text))
        for section in sections:
            with section.open("rb") as content:
                tar.addfile(_entry(section.name, section.stat().st_size), content)


def waking(section: Path | None, bounds: Bounds) -> Buckets:
    """Return the buckets with a row whose time is within the bounds [from, to)."""
    start, end = bounds
    if section is None or end is None or bounds == NOTHING or (start is not None and start >= end):
        return np.empty(0, np.int64)
    found = []
    for batch in pq.ParquetFile(section).iter_batches(BATCH_ROWS, columns=[BUCKET, AT]):
        at = batch.column(AT).to_numpy(zero_copy_only=False)
        hit = at < end if start is None else (at >= start) & (at < end)
        found.append(batch.column(BUCKET).to_numpy()[hit])
    return distinct(np.concatenate(found)) if found else np.empty(0, np.int64)


def extract(section: Path, buckets: Buckets, to: Path) -> int:
    """Write the rows of some buckets to the file `to`, and return their number."""
    count = 0
    file = pq.ParquetFile(section)
    with pq.ParquetWriter(to, file.schema_arrow, compression="snappy") as writer:
        for batch in file.iter_batches(BATCH_ROWS):
            hit = batch.filter(pa.array(_among(batch, buckets)))
            if hit.num_rows:
                writer.write_batch(hit)
                count += hit.num_rows
    return count


def write_section(
    to: Path,
    schema: pa.Schema,
    fresh: Iterator[pa.RecordBatch],
    *,
    old: Path | None,
    replaced: Buckets,
    keep: int | None,
) -> int:
    """Write the rows of a side: the fresh ones, and old ones whose bucket is not in `replaced`.

    Both must be sorted by bucket, and have no bucket in common. Return the number of rows.
    """
    kept = _kept(old, replaced, keep)
    count = 0
    with pq.ParquetWriter(to, schema, compression="zstd", compression_level=1) as writer:
        for batch in windows(_merged(kept, fresh, schema), BATCH_ROWS):
            if batch.num_rows:
                writer.write_batch(batch, ROW_GROUP_ROWS)
                count += batch.num_rows
    return count


def _kept(old: Path | None, replaced: Buckets, keep: int | None) -> Iterator[pa.RecordBatch]:
    if old is None:
        return
    for batch in pq.ParquetFile(old).iter_batches(BATCH_ROWS):
        mask = ~_among(batch, replaced)
        if keep is not None:
            mask &= pc.greater_equal(batch.column(AT), keep).to_numpy(zero_copy_only=False)
        if mask.any():
            yield batch if mask.all() else batch.filter(pa.array(mask))


def _merged(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Merge two sorted streams. No bucket is in both, so the rows of a bucket keep their order."""
    streams = [_filled(one, schema), _filled(other, schema)]
    heads = [next(stream, None) for stream in streams]
    while (left := heads[0]) is not None and (right := heads[1]) is not None:
        parts = []
        end = min(int(head.column(BUCKET)[-1].as_py()) for head in (left, right))
        for at, head in enumerate((left, right)):
            cut = int(np.searchsorted(head.column(BUCKET).to_numpy(), end, side="right"))
            parts.append(head.slice(0, cut))
            rest = head.slice(cut)
            heads[at] = rest if rest.num_rows else next(streams[at], None)
        both = pa.Table.from_batches(parts)
        order = np.argsort(both.column(BUCKET).to_numpy(), kind="stable")
        yield from both.take(pa.array(order)).combine_chunks().to_batches()
    for head, stream in zip(heads, streams, strict=True):
        if head is not None:
            yield head
        yield from stream


def _filled(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches that have rows, in the types of the section."""
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            yield from table.combine_chunks().to_batches()


def _among(batch: pa.RecordBatch, buckets: Buckets) -> np.ndarray[Any, np.dtype[np.bool_]]:
    own = batch.column(BUCKET).to_numpy()
    at = np.searchsorted(buckets, own)
    inside = at < len(buckets)
    hit = np.zeros(len(own), np.bool_)
    hit[inside] = buckets[at[inside]] == own[inside]
    return hit


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry


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
    state: OperatorState
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


_NTH, _LEAD, _TIME, _PAIRED = "odf nth", "odf lead", "odf time", "odf paired"
ORDER = (_TIME, _LEAD, GROUP, _NTH, SIGN)


def told(
    frame: DataFrame,
    columns: Sequence[str],
    *,
    operation: str,
    event_time: str,
    only_come: bool = False,
) -> DataFrame:
    """Return changes as rows with operations, and the columns of `ORDER` to sort them.

    With `only_come`, all changes are additions: no rows form corrections or cancel out.
    """
    every = [col(name) for name in columns]
    if only_come:
        time = col(event_time) if event_time in columns else F.lit(0)
        return frame.select(
            F.lit(int(Operation.APPEND)).alias(operation),
            *every,
            time.alias(_TIME),
            F.struct(*every).alias(_LEAD),
            col(GROUP),
            F.lit(1).alias(_NTH),
            col(SIGN),
        )
    net = difference_of(frame.select(*every, col(GROUP), col(SIGN)))
    nth = F.row_number().over(Over.partitionBy(col(GROUP), col(SIGN)).orderBy(*every))
    together = Over.partitionBy(col(GROUP), col(_NTH))
    row = F.struct(*every)
    came = F.max(F.when(col(SIGN) > 0, row)).over(together)
    went = F.max(F.when(col(SIGN) < 0, row)).over(together)
    both = F.count(F.lit(1)).over(together) == 2
    rows = net.select("*", nth.alias(_NTH))
    rows = rows.select("*", F.coalesce(came, went).alias(_LEAD), both.alias(_PAIRED))
    code = (
        F.when(col(_PAIRED) & (col(SIGN) < 0), int(Operation.CORRECT_FROM))
        .when(col(_PAIRED), int(Operation.CORRECT_TO))
        .when(col(SIGN) < 0, int(Operation.RETRACT))
        .otherwise(int(Operation.APPEND))
    )
    time = F.col(f"`{_LEAD}`.`{event_time}`") if event_time in columns else F.lit(0)
    return rows.select(
        code.cast("int").alias(operation), *every, time.alias(_TIME), *map(col, ORDER[1:])
    )


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the schema of the written columns, all of them nullable."""
    known = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.with_nullable(True) for field in known])


def write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, to: Path) -> int:
    """Write the rows in their order, and return their number."""
    count = 0
    with pq.ParquetWriter(to, schema, compression="snappy") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
            count += batch.num_rows
    return count
