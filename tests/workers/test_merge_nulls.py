"""Rows without a value meet batches that require one, and structs are absent as a whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import (
    bench_without_engine,
    created,
    ndjson,
    now,
    submit,
    upload,
    worker_of,
)
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.codec.manifests import from_data
from odf_protocol.metadata.events import AddData, AddPushSource
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    Failed,
    JobId,
    JobSpec,
    ObjectKey,
    ObjectKind,
    Succeeded,
)
from odf_workers.program.loop import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UPSERT = MergeStrategyUpsertStream(primary_key=("k",))
SNAPSHOT = MergeStrategySnapshot(primary_key=("k",))
CHANGELOG = MergeStrategyChangelogStream(primary_key=("k",))
STRUCT = {
    "kind": "Struct",
    "fields": [
        {"name": "a", "type": "Int64"},
        {"name": "b", "type": {"kind": "Option", "inner": "String"}},
    ],
}


def optional(inner: Any) -> dict[str, Any]:
    return {"kind": "Option", "inner": inner}


def reading(**columns: Any) -> ReadStep:
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    step: ReadStep = from_data({"kind": "NdJson", "schema": {"fields": fields}}, ReadStep)
    return step


def told(stores: Stores, job: JobId) -> Succeeded:
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Succeeded), outcome
    return outcome


def rows_of(stores: Stores, dataset: Dataset, *names: str) -> list[tuple[Any, ...]]:
    found = []
    for block in [block for page in dataset.pages() for block in page]:
        if isinstance(block.event, AddData) and block.event.new_data is not None:
            key = ObjectKey(dataset.id, ObjectKind.DATA, block.event.new_data.physical_hash)
            with stores.objects.open(key) as stream:
                table = pq.read_table(stream, columns=list(names))
            found += [tuple(row[name] for name in names) for row in table.to_pylist()]
    return found


@pytest.mark.parametrize("merge", [UPSERT, SNAPSHOT], ids=["upsert", "snapshot"])
def test_a_batch_may_require_what_stored_rows_lack(merge: MergeStrategy, tmp_path: Path) -> None:
    stores = throwaway_stores()
    dataset = created(stores, merge=merge, read=reading(k="Int64", v=optional("Int64")))
    bench = bench_without_engine(stores, tmp_path)
    worker = Worker(
        stores=stores, context=bench, name="w", lease=timedelta(seconds=30), longest_pause_s=0.01
    )
    first = submit(stores, dataset, ndjson([{"k": 1}, {"k": 2, "v": 3}]))
    worker.work(once=True)
    told(stores, first)
    strict = AddPushSource(source_name="strict", read=reading(k="Int64", v="Int64"), merge=merge)
    state = dataset.state()
    blocks, _ = author(state, [strict], system_time=now())
    dataset.commit(blocks, expected=state.head)
    payload = upload(stores, dataset, ndjson([{"k": 1, "v": 5}, {"k": 2, "v": 3}]))
    payload = msgspec.structs.replace(payload, source_name="strict")
    job = stores.jobs.submit(
        JobSpec(ingest_job.KIND, dataset.id, ingest_job.to_json(payload), lock=str(dataset.id))
    )
    worker.work(once=True)
    told(stores, job)
    assert rows_of(stores, dataset, "op", "k", "v") == [
        (0, 1, None),
        (0, 2, 3),
        (2, 1, None),
        (3, 1, 5),
    ]


@pytest.mark.spark
@pytest.mark.parametrize("merge", [UPSERT, SNAPSHOT, CHANGELOG], ids=["upsert", "snapshot", "log"])
def test_a_struct_with_a_required_member_may_be_absent_as_a_whole(
    merge: MergeStrategy, spark: SparkSession, tmp_path: Path
) -> None:
    stores = throwaway_stores()
    log = merge is CHANGELOG
    columns = {"k": "Int64", "s": optional(STRUCT), **({"op": "Int32"} if log else {})}
    dataset = created(stores, merge=merge, read=reading(**columns))
    worker = worker_of(spark, stores, tmp_path)
    code = {"op": 0} if log else {}
    batches = [
        [{"k": 1, "s": None, **code}, {"k": 2, "s": {"a": 1}, **code}],
        [{"k": 3, "s": {"a": 2}, **code}, {"k": 4, "s": None, **code}]
        if log
        else [{"k": 1, "s": {"a": 2}}, {"k": 2, "s": None}],
    ]
    for batch in batches:
        job = submit(stores, dataset, ndjson(batch))
        worker.work(once=True)
        told(stores, job)
    one, two = {"a": 1, "b": None}, {"a": 2, "b": None}
    assert rows_of(stores, dataset, "op", "k", "s") == [
        (0, 1, None),
        (0, 2, one),
        *(
            [(0, 3, two), (0, 4, None)]
            if log
            else [(2, 1, None), (3, 1, two), (2, 2, one), (3, 2, None)]
        ),
    ]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["String", "Float64", "Bool"])
def test_an_operation_column_that_is_no_whole_number_is_refused_by_its_type(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    stores = throwaway_stores()
    value = {"String": "0", "Float64": 0.5, "Bool": True}[kind]
    for number, merge in enumerate((CHANGELOG, UPSERT), 1):
        dataset = created(stores, number=number, merge=merge, read=reading(k="Int64", op=kind))
        job = submit(stores, dataset, ndjson([{"k": 1, "op": value}]))
        worker_of(spark, stores, tmp_path).work(once=True)
        outcome = stores.jobs.get(job).outcome
        assert isinstance(outcome, Failed), outcome
        assert outcome.branch == "BadInput", outcome
        assert "op" in outcome.message
