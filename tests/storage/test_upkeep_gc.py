"""Garbage collection removes what no chain names, and nothing that one names or soon will."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from chain_maker import add_data, entry, linked, long_chain, some_id
from msgspec import defstruct
from refusals import perhaps_refusing, refusing
from upkeep_parts import (
    ROWS,
    TOMORROW,
    begun,
    dataset_of,
    grow,
    grown,
    key_of,
    next_block,
    put_slice,
)

from odf_protocol.chain.rules import fold
from odf_protocol.codec import encode
from odf_protocol.codec.blocks import decode_block
from odf_protocol.codec.tables import TABLES, Field
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddData, DataSlice, HashedBlock, UnknownEvent
from odf_protocol.metadata.schema import Table
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.datasets.upkeep.gc import GcReport, collect_garbage
from odf_storage.datasets.upkeep.marks import Marks
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.ports.errors import BlockNotFound, RefConflict
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    JobSpec,
    ObjectKey,
    ObjectKind,
    UploadedFile,
)
from odf_storage.stores.sql.tables import moves

CONTENT = b"nobody names this"
HASH = Multihash.of(CONTENT)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    yield stores
    stores.close()


def counts(report: GcReport) -> dict[str, int]:
    return {reason: tally.count for reason, tally in report.removed.items()}


def everything(stores: Stores) -> set[ObjectKey]:
    return {
        info.key for dataset in stores.objects.datasets() for info in stores.objects.list(dataset)
    }


def old(stores: Stores) -> GcReport:
    """A collection by a clock for which everything is a day old."""
    return collect_garbage(stores, clock=TOMORROW)


def test_a_store_without_garbage_stays_as_it_is(stores: Stores) -> None:
    grown(stores)
    grown(stores, "kamu/bar")
    before = everything(stores)
    report = old(stores)
    assert (report.removed, report.blocks_forgotten, report.left_alone) == ({}, 0, [])
    assert report.datasets == 2
    assert everything(stores) == before
    assert check_stores(stores).ok


def test_every_kind_of_orphan_goes_and_is_reported_by_reason(stores: Stores) -> None:
    made, _ = grown(stores)
    before = everything(stores)
    for kind in ObjectKind:
        stores.objects.put(key_of(made, kind, HASH), [CONTENT])
    report = old(stores)
    assert counts(report) == {
        "unreferenced block": 1,
        "unreferenced data": 1,
        "unreferenced checkpoint": 1,
        "upload without a job": 1,
    }
    assert {tally.size for tally in report.removed.values()} == {len(CONTENT)}
    assert everything(stores) == before


def test_a_dry_run_says_the_same_and_removes_nothing(stores: Stores) -> None:
    made, blocks = grown(stores)
    stores.objects.put(key_of(made, ObjectKind.DATA, HASH), [CONTENT])
    replace_chain(stores, made, blocks)
    before = everything(stores)
    dry = collect_garbage(stores, clock=TOMORROW, dry_run=True)
    assert everything(stores) == before
    wet = old(stores)
    assert replace(dry, dry_run=False) == wet
    assert wet.blocks_forgotten > 0


def test_what_is_younger_than_the_grace_time_stays(stores: Stores) -> None:
    made, _ = grown(stores)
    key = key_of(made, ObjectKind.DATA, HASH)
    stores.objects.put(key, [CONTENT])
    report = collect_garbage(stores)
    assert (report.removed, report.young) == ({}, 1)
    assert stores.objects.stat(key) is not None


def test_uploads_that_jobs_wait_for_stay_until_the_jobs_have_ended(stores: Stores) -> None:
    made, _ = grown(stores)
    key = key_of(made, ObjectKind.UPLOAD, HASH)
    stores.objects.put(key, [CONTENT])
    job = stores.jobs.submit(JobSpec(ingest_job.KIND, made.id, {"upload": str(HASH)}))
    assert old(stores).removed == {}
    stores.jobs.claim("worker", [ingest_job.KIND], lease=timedelta(minutes=1))
    assert old(stores).removed == {}
    stores.jobs.cancel(job)
    assert counts(old(stores)) == {"upload without a job": 1}


def replace_chain(stores: Stores, made: object, blocks: list[HashedBlock]) -> list[HashedBlock]:
    """A forced commit that keeps the Seed and the schema only, with one slice of its own."""
    part = put_slice(stores, made, 0, value="other")  # type: ignore[arg-type]
    new = [*blocks[:2], next_block(blocks[:2], part)]
    dataset_of(stores, made).commit(new, expected=blocks[-1].hash, force=True)  # type: ignore[arg-type]
    return new


def test_an_old_chain_goes_with_its_objects_once_it_is_old(stores: Stores) -> None:
    made, blocks = grown(stores)
    new = replace_chain(stores, made, blocks)
    assert collect_garbage(stores).removed == {}, "clients may still be reading it"
    report = old(stores)
    assert counts(report) == {"unreferenced block": 2, "unreferenced data": 2}
    assert report.blocks_forgotten == 2
    assert stores.blocks.count(made.id) == len(new)
    assert dataset_of(stores, made).blocks() == new
    assert check_stores(stores).ok


def test_a_chain_that_was_head_within_the_grace_time_stays_whole(
    local: Stores, tmp_path: Path
) -> None:
    made, blocks = grown(local)
    for path in tmp_path.rglob("f1620*"):
        os.utime(path, (1, 1))
    replace_chain(local, made, blocks)
    report = collect_garbage(local)
    assert (report.removed, report.blocks_forgotten) == ({}, 0)
    assert dataset_of(local, made).blocks(upto=blocks[-1].hash) == blocks


def test_a_chain_that_was_cleared_away_cannot_be_continued(stores: Stores) -> None:
    made, blocks = grown(stores)
    new = replace_chain(stores, made, blocks)
    continued = next_block(blocks, put_slice(stores, made, 2 * ROWS))
    dataset_of(stores, made).state(blocks[-1].hash)  # remembered from now on
    stores.refs.prune(made.id, heads=[new[-1].hash])
    with pytest.raises(BlockNotFound):
        dataset_of(stores, made).commit([continued], expected=new[-1].hash, force=True)
    with pytest.raises(BlockNotFound):  # also when the look at the base came before
        stores.refs.move(made.id, expected=new[-1].hash, new=continued.hash, blocks=[continued])
    assert dataset_of(stores, made).head() == new[-1].hash


def test_blocks_are_not_forgotten_under_a_head_that_moved(stores: Stores) -> None:
    made, blocks = grown(stores)
    with pytest.raises(RefConflict):
        stores.refs.prune(made.id, heads=[blocks[-2].hash])
    assert stores.refs.prune(made.id, heads=[blocks[-1].hash, blocks[1].hash]) == 0
    assert stores.blocks.count(made.id) == len(blocks)


def test_a_first_push_that_never_ended_is_cleared_away(stores: Stores) -> None:
    pushed, authored = entry("kamu/pushed"), entry("kamu/authored")
    stores.create_dataset(pushed, long_chain(pushed.id, 1), pushed=True, unfinished=True)
    stores.create_dataset(authored, long_chain(authored.id, 1))
    stores.objects.put(key_of(pushed, ObjectKind.DATA, HASH), [CONTENT])
    young = collect_garbage(stores)
    assert (young.datasets_forgotten, young.removed) == ([], {})
    report = old(stores)
    assert report.datasets_forgotten == ["kamu/pushed"]
    assert counts(report) == {"object of an abandoned first push": 2}
    assert stores.registry.find(DatasetRef(id=pushed.id)) is None
    assert dataset_of(stores, authored).blocks()
    assert {key.dataset for key in everything(stores)} == {authored.id}


def test_a_first_push_that_went_on_after_all_is_kept(stores: Stores) -> None:
    made = entry()
    blocks = long_chain(made.id, 2)
    stores.create_dataset(made, blocks[:1], pushed=True, unfinished=True)
    with pytest.raises(RefConflict):
        stores.forget_dataset(made.id, expected=blocks[1].hash)
    dataset_of(stores, made).commit(blocks[1:], expected=blocks[0].hash)
    with pytest.raises(RefConflict):
        stores.forget_dataset(made.id, expected=blocks[0].hash)
    assert old(stores).datasets_forgotten == []
    assert dataset_of(stores, made).blocks() == blocks


def test_a_dataset_that_was_reset_to_its_seed_is_no_push_that_never_ended(local: Stores) -> None:
    made = entry()
    blocks = long_chain(made.id, 2)
    local.create_dataset(made, blocks[:1], pushed=True, unfinished=True)
    dataset_of(local, made).commit(blocks[1:], expected=blocks[0].hash)
    reset(local, made)
    assert old(local).datasets_forgotten == []
    assert dataset_of(local, made).blocks() == blocks[:1]


def test_a_dataset_whose_push_has_ended_is_kept_when_the_log_of_moves_is_lost(
    local: Stores,
) -> None:
    made = entry()
    blocks = long_chain(made.id, 2)
    local.create_dataset(made, blocks[:1], pushed=True, unfinished=True)
    dataset_of(local, made).commit(blocks[1:], expected=blocks[0].hash)
    local.finish_push(made.id)
    reset(local, made)
    with local.engine.begin() as db:
        db.execute(sa.delete(moves).where(moves.c.old.is_not(None)))
    assert old(local).datasets_forgotten == []


def test_a_dataset_pushed_as_a_seed_alone_is_whole(stores: Stores) -> None:
    made = entry()
    stores.create_dataset(made, long_chain(made.id, 1), pushed=True)
    assert old(stores).datasets_forgotten == []
    assert dataset_of(stores, made).blocks()


def test_a_dataset_the_index_has_lost_is_never_touched(local: Stores) -> None:
    made, _ = grown(local)
    local.registry.forget(made.id)
    before = everything(local)
    report = old(local)
    assert everything(local) == before
    assert report.removed == {}
    assert "rebuild the index" in report.left_alone[0]


def test_objects_of_a_dataset_that_never_came_to_be_go(stores: Stores) -> None:
    made = entry("kamu/never")
    stores.objects.put(key_of(made, ObjectKind.BLOCK, HASH), [CONTENT])
    assert collect_garbage(stores).removed == {}
    assert counts(old(stores)) == {"object of no dataset": 1}
    assert everything(stores) == set()


def test_files_that_accounts_uploaded_are_theirs_to_remove(stores: Stores) -> None:
    owner = some_id("an account")
    account = AccountId(str(owner))
    stores.accounts.put_account(Account(account, "alice"))
    key = ObjectKey(owner, ObjectKind.UPLOAD, HASH)
    stores.objects.put(key, [CONTENT])
    made = UploadedFile(
        id="1",
        account=account,
        file_name="a.csv",
        content_type=None,
        created_at=entry().created_at,
    )
    stores.files.put(made)
    stores.files.arrived("1", HASH, len(CONTENT))
    assert old(stores).removed == {}
    assert check_stores(stores).notes == []
    stores.files.remove("1")
    assert counts(old(stores)) == {"object of no dataset": 1}


def test_a_dataset_whose_chain_has_a_hole_is_left_alone(local: Stores) -> None:
    _, blocks = grown(local)
    assert local.engine is not None
    with local.engine.begin() as db:
        db.exec_driver_sql("DELETE FROM blocks WHERE sequence_number = 1")
    before = everything(local)
    report = old(local)
    assert everything(local) == before
    assert f"there is no block {blocks[1].hash}" in report.left_alone[0]


def test_a_dataset_whose_chain_breaks_a_rule_is_left_alone_and_no_other(local: Stores) -> None:
    made, blocks = grown(local)
    broken = linked(blocks[-1], add_data(put_slice(local, made, 2 * ROWS), prev=99))
    local.refs.move(made.id, expected=blocks[-1].hash, new=broken.hash, blocks=[broken])
    other, _ = grown(local, "kamu/other")
    for dataset in (made, other):
        local.objects.put(key_of(dataset, ObjectKind.DATA, HASH), [CONTENT])
    report = old(local)
    assert report.left_alone[0].startswith("kamu/foo: ")
    assert counts(report) == {"unreferenced data": 1}
    assert key_of(made, ObjectKind.DATA, HASH) in everything(local)


def of_a_newer_writer(
    blocks: list[HashedBlock], part: DataSlice, monkeypatch: pytest.MonkeyPatch
) -> HashedBlock:
    """A block behind these that adds a slice, with a field that this version does not know."""
    fields = [*AddData.__struct_fields__, "future"]
    newer = defstruct("AddData", fields, bases=(Table,), frozen=True, kw_only=True)
    known = add_data(part, prev=fold(blocks).last_offset)
    event = newer(**{name: getattr(known, name) for name in AddData.__struct_fields__}, future="x")
    slots = (*TABLES["AddData"], Field("future", "string"))
    with monkeypatch.context() as patched:
        patched.setattr(encode, "TABLES", {**TABLES, "AddData": slots})
        block = decode_block(linked(blocks[-1], event).raw)
    assert isinstance(block.event, UnknownEvent)
    return block


def test_slices_of_blocks_that_newer_writers_wrote_are_kept(
    local: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, blocks = grown(local)
    part = put_slice(local, made, 2 * ROWS)
    newer = of_a_newer_writer(blocks, part, monkeypatch)
    dataset_of(local, made).commit([newer], expected=blocks[-1].hash)
    for kind in ObjectKind:
        local.objects.put(key_of(made, kind, HASH), [CONTENT])
    report = old(local)
    assert counts(report) == {"unreferenced block": 1, "upload without a job": 1}
    assert local.objects.stat(key_of(made, ObjectKind.DATA, part.physical_hash)) is not None
    (left,) = report.left_alone
    assert left.startswith(
        "kamu/foo: slices and checkpoints are kept, because block 4 is of a newer"
    )
    assert check_stores(local).notes == []


def test_unfinished_writes_are_removed_when_they_are_old(local: Stores, tmp_path: Path) -> None:
    made, _ = grown(local)
    folder = tmp_path / "datasets" / made.id.multibase / "data"
    (folder / ".pending-0123456789abcdef").write_bytes(b"half")
    assert collect_garbage(local).unfinished_writes == 0
    assert collect_garbage(local, clock=TOMORROW, dry_run=True).unfinished_writes == 1
    assert old(local).unfinished_writes == 1
    assert old(local).unfinished_writes == 0


# --- beside writers -------------------------------------------------------------------------


def test_an_old_orphan_that_a_push_skips_is_young_again(local: Stores, tmp_path: Path) -> None:
    made, blocks = begun(local)
    part = put_slice(local, made, 0)
    key = key_of(made, ObjectKind.DATA, part.physical_hash)
    os.utime(tmp_path / "datasets" / made.id.multibase / "data" / str(key.hash), (1, 1))
    assert local.objects.renew(key) is not None  # what SkipUpload answers by
    assert collect_garbage(local).removed == {}
    block = next_block(blocks, part)
    dataset_of(local, made).commit([block], expected=blocks[-1].hash)
    assert check_stores(local).ok


def test_a_push_whose_object_was_collected_fails_cleanly_and_works_again(stores: Stores) -> None:
    made, blocks = begun(stores)
    part = put_slice(stores, made, 0)
    assert counts(old(stores)) == {"unreferenced data": 1}
    block = next_block(blocks, part)
    with refusing("ObjectMissing"):
        dataset_of(stores, made).commit([block], expected=blocks[-1].hash)
    assert dataset_of(stores, made).head() == blocks[-1].hash
    put_slice(stores, made, 0)
    dataset_of(stores, made).commit([block], expected=blocks[-1].hash)
    assert check_stores(stores).ok


def test_a_commit_makes_old_objects_young_before_it_relies_on_them(
    local: Stores, tmp_path: Path
) -> None:
    made, blocks = begun(local)
    part = put_slice(local, made, 0)
    path = tmp_path / "datasets" / made.id.multibase / "data" / str(part.physical_hash)
    os.utime(path, (1, 1))
    dataset_of(local, made).commit([next_block(blocks, part)], expected=blocks[-1].hash)
    assert path.stat().st_mtime > 1


def test_collecting_all_the_time_never_takes_what_commits_name(local: Stores) -> None:
    """Writers put, wait about, skip what is there, force old chains back; a collector with a
    grace time of a second runs without pause. Commits succeed or fail cleanly."""
    made, blocks = begun(local)
    stop, failures, rounds = threading.Event(), list[BaseException](), [0]

    def collect() -> None:
        while not stop.is_set():
            try:
                collect_garbage(local, grace=timedelta(seconds=1))
                rounds[0] += 1
            except BaseException as failure:
                failures.append(failure)
                return

    collectors = [threading.Thread(target=collect) for _ in range(2)]
    for thread in collectors:
        thread.start()
    try:
        chains = [list(blocks)]
        for number in range(30):
            base = chains[number % len(chains)]
            if len(base) > 5:
                base = base[: 2 + number % 3]
            part = put_slice(local, made, (len(base) - 2) * ROWS, value=f"v{number % 4}-")
            if number % 3 == 0:
                stop.wait(0.1)
            new = [*base, next_block(base, part)]
            with perhaps_refusing("ObjectMissing", "BlockNotFound"):
                dataset_of(local, made).commit(new, expected=chains[-1][-1].hash, force=True)
                chains.append(new)
                chains = chains[-4:]
            head = dataset_of(local, made).head()
            for block in dataset_of(local, made).blocks(upto=head):
                for named in named_objects(block.event):
                    assert local.objects.stat(ObjectKey(made.id, named.kind, named.hash))
    finally:
        stop.set()
        for thread in collectors:
            thread.join()
    assert failures == []
    assert rounds[0] > 0
    assert check_stores(local).ok


def test_renewing_and_discarding_at_once_never_loses_a_renewed_object(local: Stores) -> None:
    made, _ = begun(local)
    key = key_of(made, ObjectKind.DATA, HASH)
    assert local.objects.local_paths is not None
    path = local.objects.local_paths.path(key)
    with ThreadPoolExecutor(1) as other:
        for _ in range(200):
            local.objects.put(key, [CONTENT])
            os.utime(path, (1, 1))
            discarding = other.submit(local.objects.discard, key, before=made.created_at)
            renewed = local.objects.renew(key)
            discarded = discarding.result()
            assert (local.objects.stat(key) is None) == discarded
            if renewed is not None:
                assert not discarded


def test_marks_find_what_was_added_and_nothing_else() -> None:
    marks, hashes = Marks(), [Multihash.of(str(number).encode()) for number in range(1000)]
    for each in hashes[::2]:
        marks.add(ObjectKind.DATA, each)
    marks.settle()
    assert all(marks.has(ObjectKind.DATA, each) for each in hashes[::2])
    assert not any(marks.has(ObjectKind.DATA, each) for each in hashes[1::2])
    assert not any(marks.has(ObjectKind.BLOCK, each) for each in hashes)


def test_growing_while_collecting_keeps_the_chain(local: Stores) -> None:
    made, blocks = begun(local)
    for number in range(3):
        grow(local, made, blocks, number * ROWS)
        assert old(local).removed == {}
    assert dataset_of(local, made).blocks() == blocks
