"""A compaction job: plan, merge, commit; planned again when another writer committed first.

A cache finds merged slices by their source slices, so that a second plan merges only what the first
did not. Slices are merged in parallel: Arrow and hashing release the interpreter's lock.

Merge several slices into one Parquet file: rows in offset order, columns unchanged.

Rows are sorted within slices, and slices follow each other, so they are concatenated; their offsets
are checked at the same time. The writer is the same as for every slice, so that equal rows give
equal bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.columns.arrow_digest import windows
from odf_protocol.errors import Damaged
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import chunks
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import (
    CompactionPlan,
    HistoryReceipt,
    commit_plan,
    plan_hard,
)
from odf_storage.datasets.rewrite.compact import described as receipt_of_plan
from odf_storage.datasets.rewrite.compaction import Merge, SliceLimits
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ...slices.conform import conform
from ...slices.write import ROW_GROUP_ROWS, WRITE_ROWS, described, parquet_settings
from ..work.context import local_file


def slice_damaged(data: DataSlice, why: str) -> Damaged:
    """A stored slice does not contain what its block states."""
    return Damaged(
        "SliceDamaged",
        f"data slice {data.physical_hash} cannot be merged: {why}",
        object=f"data/{data.physical_hash}",
    )


def merge_slices(
    slices: Sequence[DataSlice], files: Sequence[Path], target: Path, *, offset_column: str
) -> DataSlice:
    """Write the rows of all files, one for each slice in order, and describe the resulting slice.

    The columns are those of the newest slice; a column that another slice lacks, or has as
    optional, is optional.

    Raises:
        SliceDamaged: a file is not readable, or its offsets are not those of its slice.
    """
    schema = _common([_schema_of(data, path) for data, path in zip(slices, files, strict=True)])
    rows = _rows(slices, files, schema, offset_column)
    with pq.ParquetWriter(target, schema, **parquet_settings(schema)) as writer:
        for batch in windows(rows, WRITE_ROWS):
            writer.write_batch(batch, ROW_GROUP_ROWS)
    return described(target, slices[0].offset_interval.start)


def _schema_of(data: DataSlice, path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path).remove_metadata()
    except (pa.ArrowException, OSError) as broken:
        raise slice_damaged(data, str(broken)[:200]) from None


def _common(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the newest schema; a column is required if it is required in all schemas."""
    return pa.schema(
        field.with_nullable(
            any(
                field.name not in schema.names or schema.field(field.name).nullable
                for schema in schemas
            )
        )
        for field in schemas[-1]
    )


def _rows(
    slices: Sequence[DataSlice], files: Sequence[Path], schema: pa.Schema, offset_column: str
) -> Iterator[pa.RecordBatch]:
    for data, path in zip(slices, files, strict=True):
        expected = data.offset_interval.start
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=WRITE_ROWS):
                    _check_offsets(data, batch, offset_column, expected)
                    expected += batch.num_rows
                    yield _conformed(batch, schema)
        except (pa.ArrowException, OSError, KeyError) as broken:
            raise slice_damaged(data, str(broken)[:200]) from None
        if expected != data.offset_interval.end + 1:
            raise slice_damaged(data, f"it ends before offset {data.offset_interval.end}")


def _check_offsets(data: DataSlice, batch: pa.RecordBatch, column: str, expected: int) -> None:
    found = batch.column(column).to_numpy(zero_copy_only=False)
    wanted = np.arange(expected, expected + len(found))
    if not np.array_equal(found, wanted):
        raise slice_damaged(data, f"offsets from {expected} on are not in order")


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        conform(batch.column(field.name), field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


THREADS = 2


@dataclass(slots=True)
class _Run:
    stores: Stores
    dataset: Dataset
    scratch: Path
    merged: dict[tuple[Multihash, ...], DataSlice] = field(default_factory=dict)


def run_compaction(
    dataset: Dataset, payload: CompactPayload, stores: Stores, scratch: Path, *, attempts: int
) -> HistoryReceipt:
    """Compact a root and move its head.

    Raises:
        InvalidDatasetKind: the dataset is a derivative. SliceDamaged. NotUnderstood.
        RefConflict: other writers moved the head too often.
    """
    defaults = SliceLimits()
    limits = SliceLimits(
        size=payload.max_slice_size or defaults.size,
        records=payload.max_slice_records or defaults.records,
    )
    with tempfile.TemporaryDirectory(prefix="compact-", dir=scratch) as folder:
        run = _Run(stores, dataset, Path(folder))
        for attempt in range(1, attempts + 1):
            plan = plan_hard(dataset, limits)
            if plan.is_empty:
                return receipt_of_plan(dataset, plan, head=None)
            _merge(run, plan)
            try:
                return commit_plan(stores, dataset, plan, run.merged)
            except RefConflict:
                if attempt == attempts:
                    raise
    raise AssertionError("unreachable: the loop returns or raises")


def _merge(run: _Run, plan: CompactionPlan) -> None:
    """Merge the slices that the plan needs, and put them into the object store."""
    dataset, head = run.dataset, plan.old[-1].hash
    missing = [m for m in plan.merges if len(m.slices) > 1 and m.key not in run.merged]
    column = dataset.state(head).vocab.offset_column
    with ThreadPoolExecutor(THREADS, thread_name_prefix="compacting") as pool:
        made = pool.map(lambda merge: _merge_one(run, merge, column), missing)
        for merge, data in zip(missing, made, strict=True):
            run.merged[merge.key] = data


def _merge_one(run: _Run, merge: Merge, offset_column: str) -> DataSlice:
    with tempfile.TemporaryDirectory(dir=run.scratch) as folder:
        place = Path(folder)
        files = [
            local_file(run.dataset, ObjectKind.DATA, data.physical_hash, place / "in")
            for data in merge.slices
        ]
        target = place / "out.parquet"
        data = merge_slices(merge.slices, files, target, offset_column=offset_column)
        key = ObjectKey(run.dataset.id, ObjectKind.DATA, data.physical_hash)
        run.stores.objects.put(key, chunks(target))
    return data
