"""Write rows to one Parquet slice: system columns, one writer with fixed settings, both hashes.

Equal rows give equal bytes on every worker: batches are cut again before they are written, so that
the way in which Spark split them has no effect. Row groups are large, since each has a cost for
readers: `pieces` collects them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_columns import SliceDigest
from odf_protocol.columns.arrow_digest import KNOWN_SCHEMAS, logical_hash, logical_hash_of, windows
from odf_protocol.columns.stored_values import Misfit, bounded_leaves, leaves
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice, OffsetInterval
from odf_protocol.multihash import SHA3_256, Multihash
from odf_storage.datasets.dataset.info import chunks
from odf_storage.lanes import THREADS, expect, hash_all
from odf_storage.stores.ports.values import StoredFile

from .conform import NullCounts, conform
from .costs import WeighedRows, leaves_of, pieces, weight
from .schema import MILLIS, Operation, filled

WRITE_ROWS = 65_536
WINDOW_VALUES = 4 << 20
"""Number of values that are completed at a time; wide rows come in windows of fewer than
`WRITE_ROWS`."""
ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 256 << 20
READ_BYTES = 1 << 20
SMALL_BYTES = 1 << 18
"""A file smaller than this is hashed faster than threads can start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """Properties shared by the rows of a slice."""

    schema: pa.Schema
    vocab: Vocab
    start: int
    system_time: Instant
    source_event_time: Instant
    """Event time of rows without one."""
    latest: Instant | None = None
    """Event times after it do not count in `Written.max_event_time`."""


@dataclass(slots=True)
class Written:
    """A slice on the local disk, in memory, or in the bucket; no slice if there were no rows."""

    path: Path
    stored: StoredFile | None = None
    """The slice in the bucket, where an executor put it; there is no file at the path then."""
    content: pa.Buffer | None = None
    """Content of a small slice, which is in memory and not on disk."""
    data: DataSlice | None = None
    max_event_time: Instant | None = None
    """Latest event time that moves the watermark."""
    operations: dict[Operation, int] = field(default_factory=dict)

    def chunks(self) -> Iterable[bytes]:
        """Return the bytes of the slice, whether it is a file or in memory."""
        return chunks(self.path) if self.content is None else (self.content.to_pybytes(),)

    def source(self) -> Path | pa.NativeFile:
        """Return a source that Parquet readers accept."""
        return self.path if self.content is None else pa.BufferReader(self.content)


def operations(slices: Sequence[Written]) -> Counter[Operation]:
    """Return the number of rows in the slices by operation."""
    total: Counter[Operation] = Counter()
    for written in slices:
        total.update(written.operations)
    return total


def write_slice(
    batches: Iterator[pa.RecordBatch],
    plan: SlicePlan,
    path: Path,
    nulls: NullCounts,
    *,
    in_memory: bool,
) -> Written:
    """Write one slice of merged rows, which arrive in their final order. Write nothing if there are
    no rows, or if a required column has nulls. With `in_memory`, a small slice stays in memory.

    Raises:
        UnsupportedColumn: a column type without a logical hash.
    """
    written = Written(path)
    rows = [counted(each, plan, written) for each in complete(batches, plan, nulls)]
    if not rows or not nulls.clean:
        return written
    if in_memory and sum(map(weight, rows)) < SMALL_BYTES:
        written.content = write_small(rows, plan.schema)
        written.data = described_small(written.content, rows, plan.start)
        return written
    path.parent.mkdir(parents=True, exist_ok=True)
    write_batches(rows, plan.schema, path)
    del rows
    written.data = described(path, plan.start)
    return written


def write_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, target: Path | pa.NativeFile
) -> int:
    """Write complete rows in large row groups, as in every slice; return their number.

    A file without rows still has the schema.
    """
    rows = 0
    with pq.ParquetWriter(target, schema, **parquet_settings(schema)) as writer:
        for group in pieces(batches, ROW_GROUP_ROWS, ROW_GROUP_BYTES):
            write_group(writer, group)
            rows += group.rows
    return rows


@lru_cache(KNOWN_SCHEMAS)
def parquet_settings(schema: pa.Schema) -> Mapping[str, Any]:
    """Return the settings of every slice. They do not store the Arrow schema beside the Parquet
    schema."""
    return {
        # Format 1.0 knows neither unsigned 32-bit integers nor nanoseconds.
        "version": "2.6" if any(_is_new(kind) for kind in schema.types) else "1.0",
        "data_page_version": "1.0",
        "compression": "snappy",
        "use_dictionary": _dictionary_columns(schema),
        "write_statistics": bounded_leaves(schema),
        "store_schema": False,
        "store_decimal_as_integer": True,
        "coerce_timestamps": None,
    }


def write_group(writer: pq.ParquetWriter, group: WeighedRows) -> None:
    """Write one row group."""
    table = pa.Table.from_batches(group.batches, writer.schema)
    writer.write_table(table, max(1, table.num_rows))


def complete(
    batches: Iterator[pa.RecordBatch], plan: SlicePlan, nulls: NullCounts
) -> Iterator[pa.RecordBatch]:
    """Yield rows with all columns, in windows of fixed size; stop at the first misplaced null."""
    next_offset = plan.start
    window = max(1, min(WRITE_ROWS, WINDOW_VALUES // leaves_of(plan.schema)))
    clean = True
    for batch in windows(batches, window):
        if batch.num_rows == 0:
            continue
        whole = _complete(batch, plan, next_offset)
        next_offset += batch.num_rows
        clean = nulls.count(whole) and clean
        if clean:
            yield whole


def _complete(batch: pa.RecordBatch, plan: SlicePlan, offset: int) -> pa.RecordBatch:
    vocab, count = plan.vocab, batch.num_rows
    added = {
        vocab.offset_column: pa.array(np.arange(offset, offset + count, dtype=np.int64)),
        vocab.system_time_column: pa.repeat(pa.scalar(plan.system_time.millis, MILLIS), count),
    }
    columns = {
        name: conform(added[name] if name in added else batch.column(name), kind)
        for name, kind in zip(plan.schema.names, plan.schema.types, strict=True)
    }
    event_time = vocab.event_time_column
    columns[event_time] = filled(columns[event_time], plan.source_event_time)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=plan.schema)


def counted(batch: pa.RecordBatch, plan: SlicePlan, written: Written) -> pa.RecordBatch:
    """Add the rows to the counts in `written`, and return the batch."""
    vocab = plan.vocab
    codes = np.bincount(batch.column(vocab.operation_type_column).to_numpy())
    for code in np.flatnonzero(codes):
        done = Operation(int(code))
        written.operations[done] = written.operations.get(done, 0) + int(codes[code])
    times = batch.column(vocab.event_time_column)
    if times.type != MILLIS:
        times = pc.cast(times, pa.timestamp("ms"), safe=False)
    counts = times.view(pa.int64()).to_numpy()
    if plan.latest is not None and counts.max() > plan.latest.millis:
        counts = counts[counts <= plan.latest.millis]
        if not len(counts):
            return batch
    instant = Instant.from_millis(int(counts.max()))
    if written.max_event_time is None or instant > written.max_event_time:
        written.max_event_time = instant
    return batch


def write_small(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Buffer:
    """Write rows of at most one row group into memory, like `write_batches`."""
    made = pa.BufferOutputStream()
    table = pa.Table.from_batches(batches, schema)
    with pq.ParquetWriter(made, schema, **parquet_settings(schema)) as writer:
        if table.num_rows:
            writer.write_table(table, table.num_rows)
    return made.getvalue()


def described(path: Path, start: int) -> DataSlice:
    """Read hashes, size and offsets (from `start`) from a file as it is on disk."""
    return _read_back(path, start, judges_values=False)[0]


def judged(path: Path, start: int) -> tuple[DataSlice, Misfit | None]:
    """Describe a file of an engine, and return its first value that must not be stored."""
    return _read_back(path, start, judges_values=True)


def _read_back(path: Path, start: int, *, judges_values: bool) -> tuple[DataSlice, Misfit | None]:
    size = path.stat().st_size
    expect(size)
    with pa.memory_map(str(path)) as mapped:
        content = mapped.read_buffer()
        file = pq.ParquetFile(content)
        rows = file.metadata.num_rows
        digest = SliceDigest(file, content, judges_values=judges_values)
        threads = 1 if size < SMALL_BYTES else THREADS
        physical, *leaves = hash_all([chunks(path), *digest.streams], threads=threads)
        logical = digest.finish(leaves)
    data = _data_slice(logical, Multihash(SHA3_256, physical), start, rows, size)
    return data, digest.misfit


def described_small(content: pa.Buffer, batches: Sequence[pa.RecordBatch], start: int) -> DataSlice:
    """Describe a file in memory that contains these rows, like `described`."""
    schema, rows = batches[0].schema, sum(batch.num_rows for batch in batches)
    if is_read_as_written(schema):
        logical = logical_hash(batches, schema)
    else:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            logical = logical_hash_of(file)
    physical = Multihash(SHA3_256, hashlib.sha3_256(content).digest())
    return _data_slice(logical, physical, start, rows, content.size)


@lru_cache(KNOWN_SCHEMAS)
def is_read_as_written(schema: pa.Schema) -> bool:
    """Whether rows read from a slice have the same logical hash as before: their columns are flat,
    and of types that Parquet preserves."""
    if any(map(pa.types.is_nested, schema.types)):
        return False
    with pq.ParquetFile(pa.BufferReader(write_small([], schema))) as file:
        return bool(file.schema_arrow.equals(schema.remove_metadata()))


def _data_slice(
    logical: Multihash, physical: Multihash, start: int, rows: int, size: int
) -> DataSlice:
    return DataSlice(
        logical_hash=logical,
        physical_hash=physical,
        offset_interval=OffsetInterval(start=start, end=start + rows - 1),
        size=size,
    )


def file_hash(path: Path) -> Multihash:
    """Return the physical hash of a file."""
    digest = hashlib.sha3_256()
    with path.open("rb") as stream:
        while chunk := stream.read(READ_BYTES):
            digest.update(chunk)
    return Multihash(SHA3_256, digest.digest())


def _is_new(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_is_new(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_uint32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "ns"))


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Return every leaf column except the offsets, which never repeat."""
    return [path for path, _ in leaves(list(schema)[1:])]
