"""Checking the stores: what is missing, damaged, orphaned or out of step, and where it belongs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chain_maker import entry, long_chain
from upkeep_parts import dataset_of, grown, key_of

from odf_protocol.identity import DatasetAlias
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.compare import CompareThrottle, hash_of
from odf_storage.datasets.upkeep.fsck import FsckOptions, FsckReport, check_stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

CONTENT = b"nobody names this"
SCRUB = FsckOptions(quarantine=True)
REPAIR = FsckOptions(repair=True)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    yield stores
    stores.close()


def path_of(stores: Stores, key: ObjectKey) -> Path:
    assert stores.objects.local_paths is not None
    return stores.objects.local_paths.path(key)


def flip(stores: Stores, key: ObjectKey) -> None:
    """Change one bit of an object."""
    path = path_of(stores, key)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


def reasons(report: FsckReport) -> list[tuple[str, int | None]]:
    return [(item.reason, item.sequence_number) for item in report.problems]


def data_key(stores: Stores, number: int) -> ObjectKey:
    made, blocks = grown(stores)
    part = blocks[number].event.new_data  # type: ignore[union-attr]
    assert part is not None
    return key_of(made, ObjectKind.DATA, part.physical_hash)


def test_whole_stores_are_clean_and_everything_was_read(stores: Stores) -> None:
    made, blocks = grown(stores)
    report = check_stores(stores)
    assert report.ok
    assert (report.datasets, report.blocks, report.objects) == (1, 4, 6)
    assert report.size == sum(info.size for info in stores.objects.list(made.id))
    assert report.notes == []
    quick = check_stores(stores, FsckOptions(rehash=False))
    assert (quick.ok, quick.objects, quick.size) == (True, 6, 0)
    assert len(blocks) == 4


@pytest.mark.parametrize("rehash", [True, False])
def test_a_missing_slice_is_found_with_its_block(stores: Stores, rehash: bool) -> None:
    key = data_key(stores, 2)
    stores.objects.delete(key)
    report = check_stores(stores, FsckOptions(rehash=rehash))
    assert reasons(report) == [("ObjectMissing", 2)]
    problem = report.problems[0]
    assert problem.dataset == "kamu/foo"
    assert problem.path is not None
    assert problem.path.endswith(f"data/{key.hash}")


def test_a_damaged_slice_is_found_only_by_reading_it(local: Stores) -> None:
    flip(local, data_key(local, 3))
    assert check_stores(local, FsckOptions(rehash=False)).ok
    assert reasons(check_stores(local)) == [("PhysicalHashMismatch", 3)]


def test_a_slice_cut_short_has_the_wrong_size(local: Stores) -> None:
    path = path_of(local, data_key(local, 2))
    path.write_bytes(path.read_bytes()[:-1])
    assert reasons(check_stores(local)) == [("SizeMismatch", 2)]


def test_a_missing_block_is_found_and_written_again_from_the_index(stores: Stores) -> None:
    made, blocks = grown(stores)
    key = key_of(made, ObjectKind.BLOCK, blocks[1].hash)
    stores.objects.delete(key)
    assert reasons(check_stores(stores)) == [("ObjectMissing", 1)]
    repaired = check_stores(stores, REPAIR)
    assert [item.action for item in repaired.problems] == ["repaired"]
    assert stores.objects.stat(key) is not None
    assert check_stores(stores).ok


def test_a_damaged_block_is_written_again_and_the_damaged_one_kept_aside(
    local: Stores, tmp_path: Path
) -> None:
    made, blocks = grown(local)
    flip(local, key_of(made, ObjectKind.BLOCK, blocks[2].hash))
    assert reasons(check_stores(local)) == [("HashMismatch", 2)]
    check_stores(local, REPAIR)
    assert check_stores(local).ok
    aside = tmp_path / "quarantine" / made.id.multibase / "blocks" / str(blocks[2].hash)
    assert aside.exists()


def test_a_scrub_takes_damaged_objects_out_of_sight_until_they_are_put_again(
    local: Stores, tmp_path: Path
) -> None:
    key = data_key(local, 2)
    right = path_of(local, key).read_bytes()
    flip(local, key)
    report = check_stores(local, SCRUB)
    assert [(item.reason, item.action) for item in report.problems] == [
        ("PhysicalHashMismatch", "quarantined")
    ]
    assert local.objects.stat(key) is None
    aside = tmp_path / "quarantine" / key.dataset.multibase / "data" / str(key.hash)
    assert aside.read_bytes() != right
    assert reasons(check_stores(local, SCRUB)) == [("ObjectMissing", 2)]
    local.objects.put(key, [right])
    assert check_stores(local).ok


def test_a_scrub_takes_cut_objects_out_of_sight_as_well(local: Stores) -> None:
    key = data_key(local, 2)
    path_of(local, key).write_bytes(b"")
    assert [item.action for item in check_stores(local, SCRUB).problems] == ["quarantined"]


def test_orphans_are_noted_and_are_no_damage(stores: Stores) -> None:
    made, _ = grown(stores)
    stores.objects.put(key_of(made, ObjectKind.DATA, Multihash.of(CONTENT)), [CONTENT])
    report = check_stores(stores)
    assert report.ok
    assert [(item.reason, item.dataset) for item in report.notes] == [("Orphan", "kamu/foo")]


def test_fsck_finds_published_heads_that_differ_and_repairs_them(stores: Stores) -> None:
    made, blocks = grown(stores)
    stores.objects.write_ref(made.id, "head", blocks[0].hash)
    stores.objects.write_alias(made.id, DatasetAlias.parse("kamu/other"))
    stores.objects.write_info(made.id, "node", "nonsense")
    expected = ["PublishedHeadDiffers", "PublishedAliasDiffers", "PublishedInfoDiffers"]
    assert [item.reason for item in check_stores(stores).problems] == expected
    check_stores(stores, REPAIR)
    assert check_stores(stores).ok


def test_a_head_that_points_to_nothing_is_found(local: Stores) -> None:
    _, blocks = grown(local)
    remove_rows(local, "sequence_number = 3")
    assert reasons(check_stores(local)) == [("RefDangling", None)]
    remove_rows(local, "sequence_number = 1")
    assert reasons(check_stores(local)) == [("RefDangling", None), ("BlockNotFound", 1)]
    assert len(blocks) == 4


def test_a_chain_that_nobody_has_whole_is_found(local: Stores) -> None:
    made, blocks = grown(local)
    remove_rows(local, "sequence_number = 1")
    local.objects.delete(key_of(made, ObjectKind.BLOCK, blocks[1].hash))
    report = check_stores(local)
    assert reasons(report) == [("BlockNotFound", 1)]
    assert "nor do the objects" in report.problems[0].message
    assert report.notes == [], "what the rest of the chain names is not known"


def test_a_damaged_row_of_the_index_is_found(local: Stores) -> None:
    grown(local)
    assert local.engine is not None
    with local.engine.begin() as db:
        db.exec_driver_sql("UPDATE blocks SET raw = x'00' WHERE sequence_number = 2")
    report = check_stores(local)
    assert reasons(report) == [("BlockDamaged", 2)]
    assert "rebuild the index" in report.problems[0].message
    assert report.blocks == 4


def remove_rows(stores: Stores, where: str) -> None:
    assert stores.engine is not None
    with stores.engine.begin() as db:
        db.exec_driver_sql(f"DELETE FROM blocks WHERE {where}")


def test_a_dataset_that_is_not_in_the_index_is_found(stores: Stores) -> None:
    made, _ = grown(stores)
    stores.registry.forget(made.id)
    assert [item.reason for item in check_stores(stores).problems] == ["DatasetNotIndexed"]


def test_leftovers_without_a_head_are_noted(stores: Stores) -> None:
    never = entry("kamu/never")
    stores.objects.put(key_of(never, ObjectKind.BLOCK, Multihash.of(CONTENT)), [CONTENT])
    report = check_stores(stores)
    assert report.ok
    assert [item.dataset for item in report.notes] == [str(never.id)]


def test_a_check_of_one_dataset_looks_at_no_other(stores: Stores) -> None:
    made, _ = grown(stores)
    other, _ = grown(stores, "kamu/bar")
    for info in list(stores.objects.list(other.id)):
        stores.objects.delete(info.key)
    assert check_stores(stores, only=[dataset_of(stores, made).entry]).ok
    assert not check_stores(stores).ok


def test_progress_is_told_object_by_object(stores: Stores) -> None:
    grown(stores)
    told: list[tuple[str, int, int]] = []
    check_stores(stores, progress=lambda *step: told.append(step))
    assert [step[1] for step in told] == [1, 2, 3, 4, 5, 6]
    assert told[0][0] == "kamu/foo"


def test_long_chains_are_followed_over_pages(stores: Stores) -> None:
    made = entry()
    stores.create_dataset(made, long_chain(made.id, 1201))
    report = check_stores(stores, FsckOptions(rehash=False))
    assert (report.ok, report.blocks) == (True, 1201)


def test_a_rate_is_kept_on_the_whole_and_bursts_are_short() -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = CompareThrottle(1000, clock=lambda: now[0], sleep=sleep)
    for _ in range(10):
        throttle(500)
    assert sum(slept) == pytest.approx(5 - throttle.burst_s)
    now[0] += 3600
    throttle(250)
    assert sum(slept) == pytest.approx(5 - throttle.burst_s)


def test_hashing_under_a_rate_reads_everything(tmp_path: Path) -> None:
    content = bytes(3_000_000)
    (tmp_path / "file").write_bytes(content)
    throttle = CompareThrottle(1e12, sleep=lambda _: None)
    with (tmp_path / "file").open("rb") as stream:
        assert hash_of(stream, throttle) == (Multihash.of(content), len(content))
