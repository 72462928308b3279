"""Upkeep of objects in a bucket: garbage, damage, indexes made again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from chain_maker import entry, linked, seed
from tests.conformance.object_store import CONTENT
from upkeep_parts import TOMORROW, dataset_of, grown, key_of

from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.compare import compare_index
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.datasets.upkeep.gc import DEFAULT_GRACE, collect_garbage
from odf_storage.datasets.upkeep.rebuild import rebuild_index
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket
from odf_storage.stores.ports.values import ObjectKind
from odf_storage.stores.sql.engine import open_engine, sqlite_url
from odf_storage.stores.sql.migrate import migrate


@pytest.fixture
def store(bucket: Bucket) -> S3ObjectStore:
    return S3ObjectStore(bucket)


@pytest.fixture
def stores(store: S3ObjectStore, tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=tmp_path, durable=False))
    yield replace(opened, objects=store)
    opened.close()


def names(store: S3ObjectStore, start: str) -> list[str]:
    return [found.name for found in store.bucket.walk(start)]


def test_garbage_in_a_bucket_goes_and_the_rest_stays(stores: Stores) -> None:
    made, blocks = grown(stores)
    orphan = key_of(made, ObjectKind.CHECKPOINT, Multihash.of(CONTENT))
    stores.objects.put(orphan, [CONTENT])
    assert collect_garbage(stores).removed == {}
    report = collect_garbage(stores, clock=TOMORROW)
    assert {reason: tally.count for reason, tally in report.removed.items()} == {
        "unreferenced checkpoint": 1
    }
    assert check_stores(stores).ok
    assert dataset_of(stores, made).blocks() == blocks


def test_a_first_push_that_goes_on_with_objects_of_an_earlier_try_keeps_its_dataset(
    stores: Stores, bucket: Bucket
) -> None:
    """The bucket lists the time at which an object was put, whether or not it was renewed since."""
    made = entry()
    first = linked(None, seed(made.id))
    stores.create_dataset(made, [first], pushed=True, unfinished=True)
    key = key_of(made, ObjectKind.DATA, Multihash.of(CONTENT))
    stores.objects.put(key, [CONTENT])
    time.sleep(2)  # the bucket tells whole seconds
    gone_on = system_clock()
    assert S3ObjectStore(bucket, clock=TOMORROW).renew(key) is not None  # no young object any more
    report = collect_garbage(stores, grace=DEFAULT_GRACE, clock=lambda: day_after(gone_on))
    assert (report.datasets_forgotten, report.removed) == ([], {})
    assert stores.objects.stat(key) is not None
    assert dataset_of(stores, made).blocks() == [first]


def day_after(instant: Instant) -> Instant:
    return Instant(instant.ns + int(DEFAULT_GRACE.total_seconds()) * NANOS)


def test_damage_in_a_bucket_is_put_aside(stores: Stores, store: S3ObjectStore) -> None:
    made, blocks = grown(stores)
    name = f"{made.id.multibase}/blocks/{blocks[1].hash}"
    store.bucket.call("put_object", name, Body=bytes(len(blocks[1].raw)))
    report = check_stores(stores, FsckOptions(quarantine=True))
    assert [item.action for item in report.problems] == ["quarantined"]
    assert names(store, ".quarantine/") == [
        f".quarantine/{made.id.multibase}/block/{blocks[1].hash}"
    ]
    assert check_stores(stores, FsckOptions(repair=True)).problem_count == 1
    assert check_stores(stores).ok


def test_an_index_is_made_again_from_a_bucket(stores: Stores, tmp_path: Path) -> None:
    grown(stores)
    grown(stores, "kamu/bar")
    engine = open_engine(sqlite_url(tmp_path / "fresh.db"), durable=False)
    migrate(engine)
    assert stores.engine is not None
    with ThreadPoolExecutor(8) as pool:
        assert rebuild_index(stores.objects, engine, pool=pool).blocks == 8
        assert compare_index(stores.objects, stores.engine, pool=pool).ok
    engine.dispose()
