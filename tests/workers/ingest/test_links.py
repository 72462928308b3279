"""Rows may link to objects that are there, and to no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from refusals import refusing
from tests.workers.datasets import created, ingest_options, ndjson, upload
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetDataSchema
from odf_protocol.metadata.sources import MergeStrategySnapshot
from odf_protocol.multihash import Multihash
from odf_protocol.references import SUMMARY_KEY
from odf_storage.datasets.contents.linked import InvalidValue
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.jobs.work.context import WorkerContext

pytestmark = pytest.mark.spark
NOW = Instant.parse("2050-01-01T12:00:00Z")
SCAN, OTHER = b"a scan", b"another scan, longer"


def schema(link: dict[str, Any]) -> SetDataSchema:
    time = {"kind": "Timestamp", "unit": "Millisecond", "timezone": "UTC"}
    fields = [
        {"name": "offset", "type": {"kind": "Int64"}},
        {"name": "op", "type": {"kind": "Int32"}},
        {"name": "system_time", "type": time},
        {"name": "event_time", "type": time},
        {"name": "patient", "type": {"kind": "Option", "inner": {"kind": "Int64"}}},
        {
            "name": "scan",
            "type": {"kind": "Option", "inner": {"kind": "String"}},
            "extra": {"opendatafabric.org/type": link},
        },
    ]
    event = from_data({"kind": "SetDataSchema", "schema": {"fields": fields}}, SetDataSchema)
    assert isinstance(event, SetDataSchema)
    return event


LINK = {"kind": "ObjectLink", "linkType": {"kind": "Multihash"}}


@pytest.fixture
def stores() -> Stores:
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


def rows(*links: str | None) -> bytes:
    return ndjson(
        [
            {"event_time": "2020-01-01T00:00:00Z", "patient": number, "scan": link}
            for number, link in enumerate(links)
        ]
    )


def put(stores: Stores, dataset: Any, content: bytes) -> str:
    name = Multihash.of(content)
    stores.objects.put(ObjectKey(dataset.id, ObjectKind.DATA, name), [content])
    return str(name)


def ingest(stores: Stores, dataset: Any, bench: WorkerContext, body: bytes) -> Any:
    from odf_workers.jobs.ingest.run import run_ingest

    return run_ingest(dataset, upload(stores, dataset, body), bench, now=NOW)


def test_the_block_tells_how_many_links_there_are_and_how_large(
    stores: Stores, bench: WorkerContext
) -> None:
    dataset = created(stores, more=(schema(LINK),))
    one, two = put(stores, dataset, SCAN), put(stores, dataset, OTHER)
    ingest(stores, dataset, bench, rows(one, None, two, one))
    event = list(dataset.blocks())[-1].event
    assert isinstance(event, AddData)
    assert event.extra is not None
    told = {"numObjectsNaive": 3, "sizeNaive": 2 * len(SCAN) + len(OTHER)}
    assert event.extra.value == {SUMMARY_KEY: told}
    state = dataset.state()
    assert (state.linked_objects, state.linked_size) == (3, told["sizeNaive"])


def test_a_link_to_nothing_fails_the_batch_and_names_it(
    stores: Stores, bench: WorkerContext
) -> None:
    dataset = created(stores, more=(schema(LINK),))
    there, missing = put(stores, dataset, SCAN), str(Multihash.of(OTHER))
    head = dataset.head()
    with refusing("DanglingReference") as refused:
        ingest(stores, dataset, bench, rows(there, missing))
    assert refused.value.facts == {"column": "scan", "hash": missing, "missing": 1}
    assert dataset.head() == head


@pytest.mark.parametrize("text", ["", "scan.png", "f1620ab", "f1b20" + "0" * 64])
def test_a_link_that_is_no_hash_fails_the_batch(
    stores: Stores, bench: WorkerContext, text: str
) -> None:
    dataset = created(stores, more=(schema(LINK),))
    with pytest.raises(InvalidValue):
        ingest(stores, dataset, bench, rows(text))


def test_an_object_of_another_dataset_is_not_linked_to(
    stores: Stores, bench: WorkerContext
) -> None:
    dataset = created(stores, more=(schema(LINK),))
    other = created(stores, number=2)
    with refusing("DanglingReference"):
        ingest(stores, dataset, bench, rows(put(stores, other, SCAN)))


@pytest.mark.parametrize(
    "kind", [{"kind": "Multihash"}, {"kind": "ObjectLink"}, {"kind": "Did"}, "ObjectLink"]
)
def test_other_types_are_plain_text(stores: Stores, bench: WorkerContext, kind: Any) -> None:
    dataset = created(stores, more=(schema(kind),))
    ingest(stores, dataset, bench, rows("anything"))
    event = list(dataset.blocks())[-1].event
    assert isinstance(event, AddData)
    assert event.extra is None


def test_rows_that_are_known_already_need_no_object_any_more(
    stores: Stores, bench: WorkerContext
) -> None:
    merge = MergeStrategySnapshot(primary_key=("patient",))
    dataset = created(stores, more=(schema(LINK),), merge=merge)
    name = put(stores, dataset, SCAN)
    ingest(stores, dataset, bench, rows(name))
    assert ingest(stores, dataset, bench, rows(name)).outcome == "up-to-date"
