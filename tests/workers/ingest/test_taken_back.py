"""Rows of a changelog have to be the rows that they take back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, ndjson, upload
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.sources import (
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    ReadStepNdJson,
)
from odf_storage.datasets.node.stores import Stores
from odf_workers.jobs.ingest.outcome import Extras
from odf_workers.jobs.ingest.run import prepare_post, run_ingest, write_post
from odf_workers.plan.ingest import plan_ingest

NOW = Instant.parse("2050-01-01T12:00:00Z")
TIME = "2020-01-01T00:00:00Z"
COLUMNS = [
    {"name": "event_time", "type": {"kind": "Option", "inner": "Timestamp"}},
    {"name": "id", "type": "Int64"},
    {"name": "name", "type": {"kind": "Option", "inner": "String"}},
    {"name": "tags", "type": {"kind": "Option", "inner": {"kind": "List", "itemType": "String"}}},
]
OPERATIONS = [{"name": "op", "type": "Int32"}]
A = {"event_time": TIME, "id": 1, "name": "A", "tags": ["x"]}
B = {"event_time": TIME, "id": 2, "name": "B", "tags": None}


def read(*extra: dict[str, Any], **attributes: str) -> ReadStepNdJson:
    schema = from_data({"fields": [*extra, *COLUMNS]}, DataSchema)
    if attributes:
        told = {f"odf-node/{key}": value for key, value in attributes.items()}
        schema = msgspec.structs.replace(schema, extra=Attributes.of(told))
    return ReadStepNdJson(schema=schema)


def source(name: str, **attributes: str) -> AddPushSource:
    return AddPushSource(
        source_name=name,
        read=read(*OPERATIONS, **attributes),
        merge=MergeStrategyChangelogStream(primary_key=("id",)),
    )


@pytest.fixture
def stores() -> Iterator[Stores]:
    return throwaway_stores()


@pytest.fixture(params=["here", pytest.param("on Spark", marks=pytest.mark.spark)])
def compare(request: pytest.FixtureRequest, stores: Stores, tmp_path: Path) -> Any:
    """Compares a batch with the rows A and B, which stand; gives what is warned of."""
    bench = bench_without_engine(stores, tmp_path)
    way = bench
    if request.param == "on Spark":
        engines = replace(bench.engines, session=request.getfixturevalue("spark"))
        way = replace(bench, engines=engines, ingest=replace(bench.ingest, micro_batch_bytes=0))
    dataset = created(
        stores,
        read=read(),
        merge=MergeStrategyAppend(),
        more=(source("changes"), source("lenient", retractions="warn")),
    )
    rows = msgspec.structs.replace(upload(stores, dataset, ndjson([A, B])), source_name="default")
    run_ingest(dataset, rows, bench, now=NOW)

    def compared(*changes: tuple[int, dict[str, Any]], name: str = "changes") -> tuple[str, ...]:
        payload, state = upload(stores, dataset, b""), dataset.state()
        plan = plan_ingest(state, msgspec.structs.replace(payload, source_name=name), now=NOW)
        path = tmp_path / "batch"
        path.write_bytes(ndjson([{"op": code, **row} for code, row in changes]))
        post = prepare_post(dataset, plan, path, way, tmp_path, Extras())
        return write_post(dataset, state, post, way, tmp_path).receipts[0].warnings

    return compared


RIGHT: list[list[tuple[int, dict[str, Any]]]] = [
    [(1, A)],
    [(2, B), (3, {**B, "name": "C"})],
    [(1, A), (0, {**A, "name": "Z"}), (1, {**A, "name": "Z"})],
    [(2, A), (3, {**A, "name": "Z"}), (1, {**A, "name": "Z"})],
    [(0, {**A, "id": 7}), (1, {**A, "id": 7})],
    [(1, {**A, "event_time": None})],
]
WRONG: list[tuple[list[tuple[int, dict[str, Any]]], str]] = [
    ([(1, {**A, "name": "Z"})], "row 1 takes back a row that is another one in `name`"),
    ([(1, {**A, "name": None})], "row 1 .* another one in `name`"),
    ([(1, {**A, "tags": ["y"]})], "row 1 .* another one in `tags`"),
    ([(1, {**A, "event_time": "2020-01-02T00:00:00Z"})], "another one in `event_time`"),
    ([(0, {**A, "id": 9}), (1, {**A, "id": 7})], "row 2 takes back a row that does not stand"),
    ([(1, A), (1, A)], "row 2 takes back a row that does not stand"),
    ([(2, A), (3, {**A, "name": "Z"}), (1, A)], "row 3 .* another one in `name`"),
    ([(2, {**B, "tags": []}), (3, B)], "row 1 .* another one in `tags`"),
]


@pytest.mark.parametrize("changes", RIGHT)
def test_rows_that_take_back_what_stands_are_taken(compare: Any, changes: Any) -> None:
    assert compare(*changes) == ()


@pytest.mark.parametrize(("changes", "told"), WRONG)
def test_rows_that_take_back_another_row_are_refused(compare: Any, changes: Any, told: str) -> None:
    with refusing("NotWhatStands", match=told):
        compare(*changes)


def test_a_source_may_ask_to_be_warned_only(compare: Any) -> None:
    told = compare((1, {**A, "name": "Z"}), name="lenient")
    assert told == ("row 1 takes back a row that is another one in `name`",)
