"""A compaction job: plan, merge, commit; planned again when another writer committed first.

A cache finds merged slices by their source slices, so that a second plan merges only what the first
did not. Slices are merged in parallel: Arrow and hashing release the interpreter's lock.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from odf_protocol.metadata.data import DataSlice
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.local_files import chunks
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import Plan, commit_plan, plan_hard
from odf_storage.datasets.rewrite.compact import described as receipt_of_plan
from odf_storage.datasets.rewrite.compaction import Merge, SliceLimits
from odf_storage.datasets.rewrite.receipt import HistoryReceipt
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ..work.slice_files import local_file
from .merge import merge_slices

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


def _merge(run: _Run, plan: Plan) -> None:
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
