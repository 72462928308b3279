"""A verification that is spread over tasks finds what one in threads of this process finds."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from buckets import log_in
from chain_maker import some_id, table
from damaged import ROWS, DatasetMaker, change_block, change_object, flip
from msgspec.structs import replace
from msgspec.structs import replace as changed
from servers import S3Server
from tests.workers.partitions.many import Many

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddData, DatasetKind, ExecuteTransform, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.verify import data
from odf_storage.datasets.verify.run import verify_chain
from odf_storage.datasets.verify.source import ChainSource, ObjectSource
from odf_storage.datasets.verify.stages import Split, in_threads
from odf_storage.stores.objects.layout import KIND_FOLDERS, dataset_folder
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.engines.exchange import links, worker_side
from odf_workers.engines.exchange.links import ExchangeFault
from odf_workers.jobs.verify import spread
from odf_workers.jobs.verify.spread import OnPartitions
from odf_workers.partitions.memory import bounded_memory

CHAINS = int(os.environ.get("ODF_TEST_VERIFIED_CHAINS", "40"))
DATASET = some_id("spread")
LINK = Attributes.of(
    {"opendatafabric.org/type": {"kind": "ObjectLink", "linkType": {"kind": "Multihash"}}}
)


def chain_made(chance: random.Random) -> DatasetMaker:
    """A root, whose rows may link to objects, or a derivative, of up to forty data blocks."""
    if chance.random() < 0.3:
        made = DatasetMaker(DatasetKind.Derivative).play(["Seed", "SetTransform", "SetDataSchema"])
        return made.play(["ExecuteTransform"] * chance.randrange(1, 20))
    made = DatasetMaker().play(["Seed"])
    schema = from_arrow(table(0, 1).schema)
    if chance.random() < 0.5:
        *others, text = schema.fields
        schema = changed(schema, fields=(*others, changed(text, extra=LINK)))
    made.add(SetDataSchema(schema=schema))
    for number in range(chance.randrange(1, 40)):
        scan = f"scan {number // 3}".encode()
        link = Multihash.of(scan)
        if chance.random() < 0.9:
            made.source.objects[ObjectKind.DATA, link] = chance.choice([scan] * 5 + [b"other"])
        before = made.offset - 1 if made.offset else None
        part = made.slice(linking(made.offset, link))
        if chance.random() < 0.1:
            wrong = chance.choice([{"size": part.size + 1}, {"logical_hash": some_hash(chance)}])
            part = replace(part, **wrong)
        made.add(AddData(new_data=part, prev_offset=before))
    return made


def linking(start: int, link: Multihash) -> pa.Table:
    return table(start, ROWS).set_column(4, "text", pa.array([str(link)] * ROWS))


def some_hash(chance: random.Random) -> Multihash:
    return Multihash.of(chance.randbytes(8))


def damage(made: DatasetMaker, chance: random.Random) -> None:
    """Up to five faults, anywhere."""
    for _ in range(chance.randrange(6)):
        number = chance.randrange(len(made.blocks))
        kind = chance.choice([ObjectKind.DATA] * 4 + [ObjectKind.CHECKPOINT, ObjectKind.BLOCK])
        content = chance.choice([flip, lambda old: old[:-1], lambda old: old + b"x", lambda _: b""])
        event = made.blocks[number].event
        if kind is ObjectKind.BLOCK:
            if chance.random() < 0.3:
                change_block(made, number, flip)
        elif chance.random() < 0.3 and isinstance(event, AddData | ExecuteTransform):
            if event.new_data is not None:
                made.source.objects.pop((ObjectKind.DATA, event.new_data.physical_hash), None)
        elif all((each.kind, each.hash) in made.source.objects for each in named(made, number)):
            change_object(made, number, kind, content)


def named(made: DatasetMaker, number: int) -> list[Any]:
    return list(data.named_objects(made.blocks[number].event))


def stored(made: DatasetMaker, folder: Path) -> LocalObjectStore:
    """The objects in a store, whatever their bytes are."""
    store = LocalObjectStore(folder)
    for (kind, name), content in made.source.objects.items():
        path = store.path(ObjectKey(DATASET, kind, name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return store


def on_many(objects: ObjectStore, way: Many, _source: ChainSource, size: int) -> OnPartitions:
    return OnPartitions(way, objects, DATASET, size=size, memory=1 << 30)


@pytest.mark.parametrize("seed", range(CHAINS))
def test_a_damaged_chain_is_reported_the_same_however_it_is_cut(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    made = chain_made(chance)
    damage(made, chance)
    rows = chance.random() < 0.8
    expected = verify_chain(made.source, logical=rows)
    objects = stored(made, tmp_path)
    monkeypatch.setattr(data, "GROUP_BLOCKS", chance.choice([1, 3, 16]))
    monkeypatch.setattr(spread, "TASK_SPLITS", chance.choice([1, 2, 32]))
    way = Many(chance.choice([2, 5]), chance)
    steps: list[tuple[str, int, int]] = []
    found = verify_chain(
        made.source,
        logical=rows,
        where=partial(on_many, objects, way),
        progress=lambda *step: steps.append(step),
    )
    assert found == expected
    assert verify_chain(made.source, logical=rows, where=partial(in_threads, threads=1)) == expected
    told = [done for phase, done, _ in steps if phase == "objects"]
    assert told == sorted(set(told))
    assert told[-1:] == ([expected.objects] if expected.objects else [])


def test_a_task_reads_a_run_of_splits_and_a_job_a_few_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = DatasetMaker().play(["Seed", "SetDataSchema", *["AddData"] * 50])
    monkeypatch.setattr(data, "GROUP_BLOCKS", 1)
    monkeypatch.setattr(spread, "TASK_SPLITS", 3)
    way = Many(2, random.Random(0))
    runner = on_many(stored(made, tmp_path), way, made.source, 1 << 30)
    report = verify_chain(made.source, where=lambda *_: runner)
    assert (report.ok, report.records) == (True, 50 * ROWS)
    assert way.partitions == [8, 8, 1]
    assert runner.splits == 50


@pytest.fixture
def bucket(s3_bucket_url: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A part of the bucket of the run, through which tasks read."""
    log_in(monkeypatch, s3)
    url = f"{s3_bucket_url}/nodes/{secrets.token_hex(6)}"
    worker_side.use(url)
    yield Bucket(S3Location.parse(url))
    worker_side.use(None)


class InBucket:
    """A store that has no files of this machine."""

    local_paths = None


@pytest.mark.parametrize("held", [True, False])
def test_tasks_read_objects_of_a_bucket_where_they_lie(
    held: bool, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(11)
    made = DatasetMaker().play(["Seed", "SetDataSchema", *["AddData"] * 8])
    change_object(made, 3, ObjectKind.DATA, flip)
    change_object(made, 5, ObjectKind.DATA, lambda old: old + b"more")
    gone = named(made, 7)[0]
    del made.source.objects[gone.kind, gone.hash]
    if not held:
        monkeypatch.setattr("odf_storage.datasets.verify.objects.HELD_BYTES", 100)
    for (kind, name), content in made.source.objects.items():
        key = f"{dataset_folder(DATASET)}/{KIND_FOLDERS[kind]}/{name}"
        bucket.call("put_object", key, Body=content)
    store: Any = InBucket()
    found = verify_chain(made.source, where=partial(on_many, store, Many(2, chance)))
    assert [each.reason for each in found.problems] == [
        "ObjectMissing",
        "SizeMismatch",
        "PhysicalHashMismatch",
    ]
    assert found == verify_chain(made.source)


def test_a_bucket_that_is_away_is_no_verdict(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = DatasetMaker().play(["Seed", "SetDataSchema", "AddData"])
    for (kind, name), content in made.source.objects.items():
        key = f"{dataset_folder(DATASET)}/{KIND_FOLDERS[kind]}/{name}"
        bucket.call("put_object", key, Body=content)
    monkeypatch.setattr(Bucket, "presign", lambda *_: "http://127.0.0.1:9/nobody")
    monkeypatch.setattr(links, "TRIES", 1)
    links._pool.cache_clear()
    store: Any = InBucket()
    with pytest.raises(ExchangeFault, match="does not answer"):
        verify_chain(made.source, where=partial(on_many, store, Many(2, random.Random(0))))
    links._pool.cache_clear()


def hungry(_source: ObjectSource, size: int) -> int:
    return len(bytearray(size))


def test_a_task_gets_no_more_memory_than_it_may_take(tmp_path: Path) -> None:
    made = DatasetMaker().play(["Seed"])
    way, store = Many(1, random.Random(0)), stored(made, tmp_path)
    runner = OnPartitions(way, store, DATASET, size=1, memory=256 << 20)
    assert list(runner.run(hungry, [Split(1 << 20, ())])) == [1 << 20]
    with pytest.raises(MemoryError):
        list(runner.run(hungry, [Split(1 << 30, ())]))
    assert hungry(made.source, 1 << 30) == 1 << 30  # the bound went with the task
    with bounded_memory(0):
        assert hungry(made.source, 1 << 30) == 1 << 30
