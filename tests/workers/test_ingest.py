"""What one ingest promises: equal bytes everywhere, nothing half done, races resolved."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing
from tests.workers.datasets import created, ingest_options, ndjson, upload
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.codec.manifests import from_data
from odf_protocol.columns.arrow_digest import logical_hash_of
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetInfo
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStep,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest.ways import LARGE, ONE_TASK, SMALL
from odf_workers.readers.formats import splits
from odf_workers.stages import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.jobs.work.context import WorkerContext

pytestmark = pytest.mark.spark
NOW = Instant.parse("2050-01-01T12:00:00.000000001Z")


@pytest.fixture
def stores() -> Iterator[Stores]:
    return throwaway_stores()


@pytest.fixture
def bench(spark: SparkSession, stores: Stores, tmp_path: Path) -> WorkerContext:
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines, WorkerContext

    return WorkerContext(
        engines=Engines(session=spark, first=SparkEngine(spark)),
        objects=stores.objects,
        scratch=tmp_path,
        ingest=ingest_options(tmp_path),
    )


def ingest(stores: Stores, dataset: Any, bench: WorkerContext, body: bytes, **more: Any) -> Any:
    from odf_workers.jobs.ingest.run import run_ingest

    return run_ingest(dataset, upload(stores, dataset, body), bench, now=NOW, **more)


def rows(count: int) -> list[dict[str, Any]]:
    chance = random.Random(7)
    return [
        {
            "event_time": f"2020-01-01T00:00:{chance.randrange(60):02}Z",
            "city": chance.choice(["A", "B", None]),
            "n": n,
            "share": chance.random(),
        }
        for n in range(count)
    ]


STRATEGIES: list[MergeStrategy] = [
    MergeStrategyLedger(primary_key=("city", "n")),
    MergeStrategySnapshot(primary_key=("n",)),
]


@pytest.mark.parametrize("merge", STRATEGIES, ids=lambda m: type(m).__name__)
def test_equal_rows_give_equal_bytes_however_spark_deals_with_them(
    merge: MergeStrategy, bench: WorkerContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ndjson(rows(500)), ndjson(rows(700)[100:])
    results = []
    for smallest, micro in ((4 << 20, 10**9), (4 << 20, 0), (1, 0)):
        monkeypatch.setattr(pipeline, "SMALLEST_PARTITION_BYTES", smallest)
        monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 5000 * smallest)
        stores = throwaway_stores()
        options = ingest_options(tmp_path / str(len(results)), micro_batch_bytes=micro)
        other = replace(bench, objects=stores.objects, ingest=options)
        dataset = created(stores, merge=merge)
        receipts = [ingest(stores, dataset, other, body) for body in (first, second)]
        results.append([(r.physical_hash, r.logical_hash, r.offset_end) for r in receipts])
        ran = receipts[1].ran
        assert (ran.way, ran.spark_jobs > 0) == (
            ("spark", True) if not micro else ("process", False)
        )
        one_task = SMALL if micro else ONE_TASK
        assert ran.because == (one_task if smallest > 1 else LARGE)
        assert (ran.tasks > 0, ran.shuffle_bytes > 0) == (not micro, smallest == 1)
        many = 2 if isinstance(merge, MergeStrategyLedger) else 6  # it is not shuffled by key
        assert (ran.tasks > many) == (smallest == 1)
    assert results[0] == results[1] == results[2]


def test_the_slice_reads_back_as_it_was_declared(stores: Stores, bench: WorkerContext) -> None:
    dataset = created(stores)
    receipt = ingest(stores, dataset, bench, ndjson(rows(10)))
    with dataset.open_object(ObjectKind.DATA, Multihash.parse(receipt.physical_hash)) as stream:
        raw = stream.read()
    assert str(Multihash.of(raw)) == receipt.physical_hash
    assert len(raw) == receipt.size
    file = pq.ParquetFile(pa.BufferReader(raw))
    assert str(logical_hash_of(file)) == receipt.logical_hash
    assert file.schema_arrow.field("system_time").type == pa.timestamp("ms", "UTC")
    assert file.metadata.metadata is None
    assert [c.name for c in file.schema_arrow if not c.nullable] == [
        "offset",
        "op",
        "system_time",
        "event_time",
    ]


def test_the_receipt_counts_rows(stores: Stores, bench: WorkerContext) -> None:
    dataset = created(stores, merge=MergeStrategyLedger(primary_key=("n",)))
    ingest(stores, dataset, bench, ndjson(rows(5)))
    receipt = ingest(stores, dataset, bench, ndjson(rows(8)))
    assert (receipt.rows_read, receipt.rows_added, receipt.rows_known) == (8, 3, 5)
    assert (receipt.offset_start, receipt.offset_end) == (5, 7)
    again = ingest(stores, dataset, bench, ndjson(rows(8)))
    assert (again.outcome, again.head, again.blocks) == ("up-to-date", receipt.head, ())


def test_a_batch_that_lost_the_race_is_planned_again(
    stores: Stores, bench: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = created(stores)
    commit, raced = dataset.commit, []

    def racing(blocks: Any, *, expected: Multihash, **more: Any) -> None:
        if not raced:
            state = dataset.state()
            other, _ = author(state, [SetInfo(description="first")], system_time=NOW)
            commit(other, expected=expected)
            raced.append(other)
        commit(blocks, expected=expected, **more)

    monkeypatch.setattr(dataset, "commit", racing)
    receipt = ingest(stores, dataset, bench, ndjson(rows(3)))
    assert receipt.prev_head == str(raced[0][-1].hash)
    assert dataset.state().last_offset == 2


def test_a_caller_that_expects_another_head_is_told(stores: Stores, bench: WorkerContext) -> None:
    from odf_workers.jobs.ingest.run import run_ingest

    dataset = created(stores)
    old = dataset.head()
    ingest(stores, dataset, bench, ndjson(rows(1)))
    payload = upload(stores, dataset, ndjson(rows(2)))
    stale = type(payload)(upload=payload.upload, expected_head=str(old))
    with pytest.raises(RefConflict):
        run_ingest(dataset, stale, bench, now=NOW)


def test_an_empty_snapshot_retracts_everything_and_says_so_unless_a_guard_is_asked_for(
    stores: Stores, bench: WorkerContext
) -> None:
    from odf_workers.jobs.ingest.run import run_ingest

    read: ReadStep = from_data(
        {"kind": "NdJson", "schema": {"fields": [{"name": "n", "type": "Int64"}]}}, ReadStep
    )
    dataset = created(stores, read=read, merge=MergeStrategySnapshot(primary_key=("n",)))
    ingest(stores, dataset, bench, b'{"n": 1}\n')
    guarded = msgspec.structs.replace(upload(stores, dataset, b"\n"), max_vanish_percent=99)
    with refusing("RowsVanished", match="1 of 1 rows"):
        run_ingest(dataset, guarded, bench, now=NOW)
    emptied = ingest(stores, dataset, bench, b"\n")
    assert emptied.rows_retracted == 1
    assert emptied.warnings == (
        "the snapshot has no rows, so each of the 1 that stood is retracted",
    )
    assert run_ingest(dataset, guarded, bench, now=NOW).outcome == "up-to-date"


def test_a_snapshot_may_hold_a_key_once(stores: Stores, bench: WorkerContext) -> None:

    dataset = created(stores, merge=MergeStrategySnapshot(primary_key=("n",)))
    ingest(stores, dataset, bench, ndjson([{"n": 1, "v": 1}]))
    with refusing("CannotMerge", match="more than once"):
        ingest(stores, dataset, bench, ndjson([{"n": 2, "v": 1}, {"n": 2, "v": 2}]))


@pytest.mark.parametrize(
    ("codes", "reason"),
    [([7], "operation code"), ([None], "operation code"), ([2], "half"), ([3, 2], "half")],
)
def test_a_changelog_of_wrong_codes_is_refused(
    codes: list[int | None], reason: str, stores: Stores, bench: WorkerContext
) -> None:

    merge = MergeStrategyChangelogStream(primary_key=("n",))
    dataset = created(stores, merge=merge)
    batch = [{"op": 0, "n": 5}, *[{"op": code, "n": 1} for code in codes]]
    with refusing("CannotMerge", match=reason):
        ingest(stores, dataset, bench, ndjson(batch))


def test_both_rows_of_a_correction_in_a_changelog_are_told(
    stores: Stores, bench: WorkerContext
) -> None:
    dataset = created(stores, merge=MergeStrategyChangelogStream(primary_key=("n",)))
    ingest(stores, dataset, bench, ndjson([{"op": 0, "n": n, "v": 1} for n in (1, 2)]))
    changes = [{"op": 1, "n": 2, "v": 1}, {"op": 2, "n": 1, "v": 1}, {"op": 3, "n": 1, "v": 3}]
    receipt = ingest(stores, dataset, bench, ndjson(changes))
    counts = (receipt.rows_read, receipt.rows_retracted, receipt.rows_corrected)
    assert (*counts, receipt.rows_known) == (3, 1, 1, 0)


def test_a_batch_with_other_columns_is_refused(stores: Stores, bench: WorkerContext) -> None:
    from odf_workers.slices.schema import IncompatibleSchema

    dataset = created(stores)
    ingest(stores, dataset, bench, b'{"n": 1}\n')
    for body, told in (
        (b'{"n": "x"}\n', "`n` is string"),
        (b'{"m": 1}\n', "new: `m`; missing: `n`"),
        (b'{"n": 1, "o": 2}\n', "new: `o`.: declare"),
    ):
        with pytest.raises(IncompatibleSchema, match=told):
            ingest(stores, dataset, bench, body)
    assert dataset.state().last_offset == 0


def test_nulls_alone_fit_the_type_of_the_dataset(stores: Stores, bench: WorkerContext) -> None:
    from odf_workers.slices.schema import BadInputSchema

    dataset = created(stores)
    with pytest.raises(BadInputSchema, match="nulls only"):
        ingest(stores, dataset, bench, b'{"n": null}\n')
    ingest(stores, dataset, bench, b'{"n": 1}\n')
    assert ingest(stores, dataset, bench, b'{"n": null}\n').rows_added == 1


def test_awkward_names_and_types_go_all_the_way(stores: Stores, bench: WorkerContext) -> None:
    table = pa.table(
        {
            "a.b": pa.array([1, None], pa.uint8()),
            "x `y`": pa.array([2**64 - 1, None], pa.uint64()),
            "A": pa.array([1, 2], pa.uint32()),
            "k0": pa.array([5, 6], pa.int32()),
            "a": pa.array([3, 4], pa.int8()),
            "time": pa.array([1, None], pa.time32("ms")),
            "half": pa.array([1.5, None], pa.float16()),
            "dec": pa.array(["1.5", None], pa.string()).cast(pa.decimal128(30, 2)),
            "list": pa.array([["p", None], None], pa.list_(pa.string())),
            "nest": pa.array([{"k": 1, "s": ["q"]}, None]),
            "raw": pa.array([b"\x00\xff", None], pa.binary()),
            "big": pa.array(["t", None], pa.large_string()),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    dataset = created(
        stores, read=ReadStepParquet(), merge=MergeStrategyLedger(primary_key=("a.b", "A"))
    )
    for _ in range(2):
        ingest(stores, dataset, bench, sink.getvalue().to_pybytes())
    events = [b.event for b in dataset.blocks() if isinstance(b.event, AddData)]
    data = events[0].new_data
    assert data is not None
    with dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
        stored = pq.read_table(stream)
    for name in table.column_names:
        assert stored.column(name).to_pylist() == table.column(name).to_pylist(), name
    assert len(events) == 2, "a null in the key never matches"
    assert dataset.state().last_offset == 2


def test_wrong_preprocessing_fails_the_ingest_with_its_place(
    stores: Stores, bench: WorkerContext
) -> None:
    from odf_protocol.metadata.events import AddPushSource, SqlQueryStep, TransformSql
    from odf_workers.engines.port.port import InvalidQuery
    from odf_workers.jobs.ingest.run import run_ingest

    query = SqlQueryStep(query="select n,\n nothing from input")
    source = AddPushSource(
        source_name="wrong",
        read=ReadStepNdJson(),
        preprocess=TransformSql(engine="spark", queries=(query,)),
        merge=MergeStrategyAppend(),
    )
    dataset = created(stores, more=(source,))
    payload = upload(stores, dataset, ndjson([{"n": 1}]))
    with pytest.raises(InvalidQuery, match="preprocessing failed: line 2, column 2: ") as caught:
        run_ingest(dataset, msgspec.structs.replace(payload, source_name="wrong"), bench, now=NOW)
    assert caught.value.facts == {"line": 2, "column": 2}


def test_preprocessing_on_spark_shapes_the_rows(stores: Stores, bench: WorkerContext) -> None:
    from odf_protocol.chain.snapshot import normalize_event
    from odf_protocol.metadata.events import AddPushSource

    source = from_data(
        {
            "kind": "AddPushSource",
            "sourceName": "shaped",
            "read": {"kind": "NdJson"},
            "preprocess": {
                "kind": "Sql",
                "engine": "Spark",
                "queries": [
                    {
                        "alias": "typed",
                        "query": "select cast(`When (UTC)` as timestamp) as event_time, "
                        "`City Name` as city, MIXed, mixED from input",
                    },
                    {"query": "select event_time, upper(city) as city, mixED from typed"},
                ],
            },
            "merge": {"kind": "Append"},
        },
        AddPushSource,
    )
    dataset = created(stores, more=(normalize_event(source, lambda _: None),))
    from odf_workers.jobs.ingest.run import run_ingest

    body = ndjson(
        [
            {"When (UTC)": "2020-01-01 12:00:00", "City Name": "b", "MIXed": 1, "mixED": 2},
            {"When (UTC)": "2020-01-01 12:00:00", "City Name": "a", "MIXed": 3, "mixED": 4},
        ]
    )
    payload = upload(stores, dataset, body)
    named = type(payload)(upload=payload.upload, source_name="shaped")
    receipt = run_ingest(dataset, named, bench, now=NOW)
    with dataset.open_object(ObjectKind.DATA, Multihash.parse(receipt.physical_hash)) as stream:
        stored = pq.read_table(stream)
    assert stored.column("city").to_pylist() == ["B", "A"]
    assert stored.column("mixED").to_pylist() == [2, 4]
    assert receipt.watermark == "2020-01-01T12:00:00Z"
    assert receipt.ran is not None
    assert (receipt.ran.preprocessed_bytes, receipt.ran.because) == (len(body), SMALL)
    assert receipt.ran.bytes != len(body)  # those of the query's result


def test_another_media_type_keeps_the_schema(stores: Stores, bench: WorkerContext) -> None:
    from odf_workers.jobs.ingest.run import run_ingest

    dataset = created(stores, read=ReadStepNdJson(ddl_schema=("city STRING", "n BIGINT")))
    payload = upload(stores, dataset, b"A,1\nB,2\n")
    csv = type(payload)(upload=payload.upload, media_type="text/CSV; charset=utf-8")
    assert run_ingest(dataset, csv, bench, now=NOW).rows_added == 2
