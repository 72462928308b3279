"""A root dataset that is polled from a Kartothek dataset, and the rows that each poll adds."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.workers.datasets import bench_without_engine, created, ingest_options, now
from throwaway import throwaway_stores

from odf_protocol.metadata.events import AddData, SetPollingSource
from odf_protocol.metadata.sources import (
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepParquet,
)
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.fetch.taken import FileLists
from odf_workers.fetch.values import FetchRules
from odf_workers.jobs.sources.poll import run_poll
from odf_workers.jobs.work.context import Engines, PollOptions, WorkerContext

SYSTEM = ("offset", "op", "system_time", "event_time")


def snapshot(*key: str) -> MergeStrategy:
    return MergeStrategySnapshot(primary_key=key)


def ledger(*key: str) -> MergeStrategy:
    return MergeStrategyLedger(primary_key=key)


def upsert(*key: str) -> MergeStrategy:
    return MergeStrategyUpsertStream(primary_key=key)


def context(stores: Any, folder: Path, spark: Any = None, **rules: Any) -> WorkerContext:
    """Of a worker that runs everything in its process; with a `spark`, everything on it."""
    given: dict[str, Any] = {
        "networks": ("127.0.0.0/8",),
        "roots": (folder,),
        "lists": FileLists(folder / "lists", 1 << 20),
    }
    polls = PollOptions(fetch=FetchRules(**{**given, **rules}), max_vanish_percent=100)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    if spark is None:
        return replace(bench_without_engine(stores, work), polls=polls)
    from odf_workers.engines.spark_engine.engine import SparkEngine

    return WorkerContext(
        engines=Engines(session=spark, first=SparkEngine(spark)),
        objects=stores.objects,
        scratch=work,
        ingest=ingest_options(folder, micro_batch_bytes=0),
        polls=polls,
    )


class Polled:
    """A dataset with a source. `rules` of its fetches."""

    def __init__(
        self, folder: Path, url: str, merge: MergeStrategy, *, spark: Any = None, **more: Any
    ) -> None:
        rules = {name: more.pop(name) for name in ("networks", "buckets") if name in more}
        fetch = FetchStepUrl(url=url, **more.pop("fetch", {}))
        source = SetPollingSource(
            fetch=fetch, **{"read": ReadStepParquet(), "merge": merge, **more}
        )
        self.stores = throwaway_stores()
        self.dataset = created(self.stores, source=source)
        self.context = context(self.stores, folder, spark, **rules)

    def __call__(self, **payload: Any) -> PollReceipt:
        return run_poll(self.dataset, PollPayload(**payload), self.context, now=now())

    @property
    def blocks(self) -> int:
        return len(list(self.dataset.blocks()))

    def table(self) -> pa.Table:
        """All rows of the dataset, in their order."""
        slices = [
            block.event.new_data
            for block in self.dataset.blocks()
            if isinstance(block.event, AddData) and block.event.new_data is not None
        ]
        tables = []
        for data in reversed(slices) if _newest_first(slices) else slices:
            key = ObjectKey(self.dataset.id, ObjectKind.DATA, data.physical_hash)
            with self.stores.objects.open(key) as stream:
                tables.append(pq.read_table(io.BytesIO(stream.read())))
        return pa.concat_tables(tables)

    def added(self, after: int) -> list[dict[str, Any]]:
        """Rows behind so many, without columns of the node but `op`."""
        rows = (
            self.table().slice(after).to_pylist()
            if self.dataset.state().last_offset is not None
            else []
        )
        return [
            {name: value for name, value in row.items() if name == "op" or name not in SYSTEM}
            for row in rows
        ]


def _newest_first(slices: Sequence[Any]) -> bool:
    starts = [each.offset_interval.start for each in slices]
    return starts != sorted(starts)


def state_of(polled: Polled) -> list[dict[str, Any]]:
    """Rows that stand, in any order: what was retracted or corrected is gone."""
    standing: list[dict[str, Any]] = []
    for row in polled.added(0):
        op = row.pop("op")
        if op in (1, 2):
            standing.remove(row)
        else:
            standing.append(row)
    return standing
