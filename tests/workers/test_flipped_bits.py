"""One bit flipped in any kind of stored object before any kind of job: nothing wrong is committed,
and what is damaged is named, or healed."""

from __future__ import annotations

import io
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.workers.datasets import created, ingest_options, ndjson, submit
from tests.workers.derivatives import derivative, node_of

from odf_protocol.metadata.sources import MergeStrategyLedger
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.integrity.healing import ObjectDamaged, ObjectHealing
from odf_storage.datasets.job_payloads import compact_job, transform_job, verify_job
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.read import RowsRequest, reading
from odf_storage.datasets.read.view import view_of_dataset
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.datasets.verify.run import DatasetSource, verify_chain
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import (
    DatasetEntry,
    Failed,
    Job,
    JobSpec,
    ObjectKey,
    ObjectKind,
)
from odf_workers.program.loop import Worker

WHEN = "2024-01-01T00:00:00Z"
QUERY = 'select event_time, id, n * 10 as n from "rows-1"'


class World:
    """A ledger of two slices with a merge state, and a derivative of it, on files."""

    def __init__(self, folder: Path) -> None:
        self.stores = open_stores(StoreSettings(data=folder / "node", durable=False))
        self.folder = folder
        self.states = MergeStates(folder / "states", max_bytes=1 << 30, rehash_s=0)
        options = ingest_options(folder, states=self.states)
        bench = replace(node_of(self.stores, folder), ingest=options)
        self.worker = Worker(
            stores=self.stores,
            context=bench,
            name="w",
            lease=timedelta(seconds=30),
            longest_pause_s=0.05,
            attempts=1,
        )
        if known := self.stores.registry.page(limit=2):
            self.made, self.root = (Dataset(entry, self.stores) for entry in _by_kind(known))
            return
        self.root = created(self.stores, merge=MergeStrategyLedger(primary_key=("id",)))
        for start in (0, 20):
            self.post(range(start, start + 20))
            self.run()
        self.made = derivative(self.stores, "tens", [self.root], QUERY)
        self.refresh()
        self.run()

    def post(self, ids: range) -> None:
        body = ndjson([{"event_time": WHEN, "id": f"row {n}", "n": n} for n in ids])
        self.body = Multihash.of(body)
        submit(self.stores, self.root, body)

    def refresh(self) -> None:
        self.stores.jobs.submit(transform_job.job_of(self.made.id, TransformPayload()))

    def compact(self) -> None:
        payload = compact_job.to_json(CompactPayload())
        self.stores.jobs.submit(
            JobSpec(compact_job.KIND, self.root.id, payload, lock=str(self.root.id))
        )

    def verify(self) -> None:
        payload = verify_job.to_json(VerifyPayload())
        self.stores.jobs.submit(JobSpec(verify_job.KIND, self.made.id, payload))

    def run(self) -> None:
        self.worker.work(once=True)

    def path(self, dataset: Dataset, kind: ObjectKind, name: Multihash) -> Path:
        assert self.stores.objects.local_paths is not None
        return self.stores.objects.local_paths.path(ObjectKey(dataset.id, kind, name))

    def slices(self, dataset: Dataset) -> list[Multihash]:
        found = [getattr(block.event, "new_data", None) for block in dataset.blocks()]
        return [data.physical_hash for data in found if data is not None]

    def rows(self, dataset: Dataset) -> list[tuple[str, int]]:
        """Of all slices that are here, as they lie."""
        found: list[tuple[str, int]] = []
        for name in self.slices(dataset):
            try:
                with dataset.open_object(ObjectKind.DATA, name) as stream:
                    content = stream.read()
            except ObjectNotFound:  # put aside
                continue
            if Multihash.of(content) == name:
                table = pq.read_table(io.BytesIO(content), columns=["id", "n"])
                found += [(row["id"], row["n"]) for row in table.to_pylist()]
        return found


def _by_kind(entries: Sequence[DatasetEntry]) -> list[DatasetEntry]:
    return sorted(entries, key=lambda entry: entry.kind)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    World(folder).stores.close()
    return folder


@pytest.fixture
def world(made_once: Path, tmp_path: Path) -> Iterator[World]:
    shutil.copytree(made_once, tmp_path / "world")
    made = World(tmp_path / "world")
    yield made
    made.stores.close()


def rot(path: Path) -> None:
    """One bit in the middle; neither size nor time tell."""
    before, damaged = path.stat(), bytearray(path.read_bytes())
    damaged[len(damaged) * 2 // 3] ^= 0x20
    path.chmod(0o644)
    path.write_bytes(damaged)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rot_slice(world: World) -> str:
    name = world.slices(world.root)[1]
    rot(world.path(world.root, ObjectKind.DATA, name))
    return str(name)


def rot_derived(world: World) -> str:
    name = world.slices(world.made)[0]
    rot(world.path(world.made, ObjectKind.DATA, name))
    return str(name)


def rot_checkpoint(world: World) -> str:
    last = world.made.state().last_execution
    assert last is not None
    assert last.new_checkpoint is not None
    name = last.new_checkpoint.physical_hash
    rot(world.path(world.made, ObjectKind.CHECKPOINT, name))
    return str(name)


def rot_upload(world: World) -> str:
    world.post(range(10, 50))
    rot(world.path(world.root, ObjectKind.UPLOAD, world.body))
    return str(world.body)


def rot_block(world: World) -> str:
    name = world.root.blocks()[0].hash
    rot(world.path(world.root, ObjectKind.BLOCK, name))
    return str(name)


def rot_state(world: World) -> str:
    for path in (world.folder / "states").rglob("*.arrow"):
        rot(path)
    return "merge state damaged"


def do_post(world: World) -> None:
    world.post(range(10, 60))


def do_post_after_all_slices_were_read(world: World) -> None:
    shutil.rmtree(world.folder / "states")
    world.post(range(10, 60))


def do_refresh(world: World) -> None:
    world.post(range(60, 80))
    world.run()
    world.refresh()


HARMS = [rot_slice, rot_derived, rot_checkpoint, rot_upload, rot_block, rot_state]
JOBS: list[Callable[[World], None]] = [
    do_post,
    do_post_after_all_slices_were_read,
    do_refresh,
    World.compact,
    World.verify,
]


def failures(stores: Stores) -> list[Failed]:
    jobs: list[Job] = list(stores.jobs.page())
    return [job.outcome for job in jobs if isinstance(job.outcome, Failed)]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__.removeprefix("do_"))
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__.removeprefix("rot_"))
def test_nothing_wrong_is_committed_and_damage_is_named(
    world: World,
    harm: Callable[[World], str],
    job: Callable[[World], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    name = harm(world)
    job(world)
    world.run()
    rows = world.rows(world.root)
    assert all(row == (f"row {n}", n) for row in rows for n in [row[1]])
    assert len(rows) == len(set(rows)), "a row of the ledger is there twice"
    for row, tens in world.rows(world.made):
        assert row == f"row {tens // 10}"
    for failed in failures(world.stores):
        assert name in f"{failed.message} {failed.facts}", failed
    named = any(name in record.getMessage() for record in caplog.records)
    found = [item.path or "" for item in check_stores(world.stores).problems]
    assert named or any(name in path for path in found) or harm is rot_state


READS: dict[str, Callable[[World, Dataset], Any]] = {
    "read": lambda _, dataset: _read(dataset),
    "tail": lambda world, dataset: dataset.open_whole(
        ObjectKind.DATA, world.slices(dataset)[-1 if dataset is world.root else 0]
    ),
}


def _read(dataset: Dataset) -> int:
    with reading(view_of_dataset(dataset), RowsRequest()) as (_, batches):
        return sum(batch.num_rows for batch in batches)


@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize("harm", [rot_slice, rot_derived], ids=["slice", "derived"])
def test_no_wrong_row_is_shown(world: World, way: str, harm: Callable[[World], str]) -> None:
    name = harm(world)
    world.stores.hashed.clear()  # as it is in another process, or an hour later
    dataset = world.root if harm is rot_slice else world.made
    with pytest.raises((ObjectDamaged, ObjectHealing)) as said:
        READS[way](world, dataset)
    assert said.value.facts["hash"] == name


def test_what_can_be_healed_is_healed(world: World) -> None:
    right = world.path(world.made, ObjectKind.DATA, world.slices(world.made)[0]).read_bytes()
    name = rot_derived(world)
    world.stores.hashed.clear()
    with pytest.raises(ObjectHealing):
        _read(world.made)
    world.run()
    path = world.path(world.made, ObjectKind.DATA, Multihash.parse(name))
    assert path.read_bytes() == right
    assert verify_chain(DatasetSource(world.made)).ok
    assert _read(world.made) == 40


def test_a_checkpoint_that_several_executions_left_is_made_by_the_first(world: World) -> None:
    for start in (60, 80):
        world.post(range(start, start + 20))
        world.run()
        world.refresh()
        world.run()
    made = [getattr(block.event, "new_checkpoint", None) for block in world.made.blocks()]
    assert len({each.physical_hash for each in made if each is not None}) < 3
    name = Multihash.parse(rot_checkpoint(world))
    world.stores.hashed.clear()
    with pytest.raises(ObjectHealing):
        world.made.open_whole(ObjectKind.CHECKPOINT, name)
    world.run()
    with world.made.open_whole(ObjectKind.CHECKPOINT, name) as stream:
        assert Multihash.of(stream.read()) == name


def test_nothing_is_refused_without_damage(world: World) -> None:
    for job in JOBS:
        job(world)
        world.run()
    assert failures(world.stores) == []
    assert sorted(n for _, n in world.rows(world.root)) == list(range(80))
