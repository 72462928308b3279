"""Objects are hashed by whoever computes with them; what is damaged is put aside, told, healed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from upkeep_parts import dataset_of, grown, key_of, put_slice

from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.info import local_file
from odf_storage.datasets.integrity import healing
from odf_storage.datasets.integrity.healing import (
    DAMAGED,
    Hashed,
    ObjectDamaged,
    hash_of_stream,
    heal_here,
    retry_open_damages,
)
from odf_storage.datasets.integrity.opening import ensure_hashed, open_hashed
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.objects.layout import bucket_name
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.ports.accounts import AuditFilter
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKey, ObjectKind


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
    yield stores
    stores.close()


def path_of(stores: Stores, key: ObjectKey) -> Path:
    assert stores.objects.local_paths is not None
    return stores.objects.local_paths.path(key)


def rot(path: Path) -> None:
    """One bit changes, and nothing of it shows: neither size nor time."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x04
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def a_slice(stores: Stores) -> ObjectKey:
    made, blocks = grown(stores)
    part = blocks[2].event.new_data  # type: ignore[union-attr]
    assert part is not None
    return key_of(made, ObjectKind.DATA, part.physical_hash)


def test_a_flipped_bit_is_never_read(local: Stores, tmp_path: Path) -> None:
    key = a_slice(local)
    rot(path_of(local, key))
    with pytest.raises(ObjectDamaged) as said:
        open_hashed(local, key)
    assert said.value.facts["hash"] == str(key.hash)
    aside = tmp_path / "node" / "quarantine" / key.dataset.multibase / "data" / str(key.hash)
    assert aside.exists()
    assert local.objects.stat(key) is None


def test_files_hashed_before_are_not_opened_again_unless_they_changed(
    local: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, opened = a_slice(local), list[ObjectKey]()
    dataset, path = local.dataset(DatasetRef(id=key.dataset)), path_of(local, key)
    opens = LocalObjectStore.open

    def noted(self: LocalObjectStore, key: ObjectKey, *, offset: int = 0) -> BinaryIO:
        opened.append(key)
        return opens(self, key, offset=offset)

    monkeypatch.setattr(LocalObjectStore, "open", noted)
    for _ in range(3):
        assert dataset.local_files(key.kind, [key.hash]) == [str(path.absolute())]
    assert opened == [key]
    os.utime(path, ns=(0, 0))
    dataset.local_files(key.kind, [key.hash])
    assert opened == [key, key]
    path.write_bytes(b"other")
    with pytest.raises(ObjectDamaged) as damaged:
        dataset.local_files(key.kind, [key.hash])
    assert damaged.value.facts["hash"] == str(key.hash)
    with pytest.raises(ObjectDamaged):  # it was put aside
        dataset.local_files(key.kind, [key.hash])


def test_damage_is_told_once_by_log_audit_and_count(
    local: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    key = a_slice(local)
    rot(path_of(local, key))
    for _ in range(3):
        with pytest.raises(ObjectDamaged):
            open_hashed(local, key)
    assert local.damages.count() == 1
    audit_entries = local.audit.page(AuditFilter(dataset=key.dataset))
    assert [(audit_entry.action, audit_entry.outcome) for audit_entry in audit_entries] == [
        ("object damaged", "open")
    ]
    assert str(key.hash) in audit_entries[0].subject
    told = [record for record in caplog.records if "object damaged" in record.getMessage()]
    assert len(told) == 1
    assert told[0].levelname == "ERROR"


def test_an_object_put_again_while_the_damaged_one_is_hashed_stays(
    local: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = a_slice(local)
    path = path_of(local, key)
    right = [path.read_bytes()]
    rot(path)

    def hashed_while_its_owner_puts(stream: BinaryIO) -> Multihash:
        found = hash_of_stream(stream)
        if right:
            local.objects.put(key, [right.pop()])
        return found

    monkeypatch.setattr(healing, "hash_of_stream", hashed_while_its_owner_puts)
    assert heal_here(local, key, DAMAGED) == "here"
    open_hashed(local, key).close()


def test_a_lost_slice_is_damage_and_a_lost_upload_is_not(local: Stores) -> None:
    key = a_slice(local)
    local.objects.delete(key)
    with pytest.raises(ObjectDamaged, match="missing"):
        open_hashed(local, key)
    with pytest.raises(ObjectNotFound):
        open_hashed(local, replace(key, kind=ObjectKind.UPLOAD))


def test_a_damaged_block_is_healed_from_the_index_while_it_is_read(local: Stores) -> None:
    made, blocks = grown(local)
    key = key_of(made, ObjectKind.BLOCK, blocks[1].hash)
    rot(path_of(local, key))
    with open_hashed(local, key) as stream:
        assert stream.read() == blocks[1].raw
    assert path_of(local, key).read_bytes() == blocks[1].raw
    assert local.damages.count() == 0
    actions = [audit_entry.action for audit_entry in local.audit.page(AuditFilter(dataset=made.id))]
    assert actions == ["object healed", "object damaged"]


def test_a_damaged_slice_is_healed_from_a_copy_and_a_damaged_copy_is_passed_by(
    local: Stores, tmp_path: Path
) -> None:
    key = a_slice(local)
    right = path_of(local, key).read_bytes()
    bad, good = (LocalObjectStore(tmp_path / name, durable=False) for name in ("bad", "good"))
    for copy in (bad, good):
        copy.put(key, [right])
    rot(bad.path(key))
    rot(path_of(local, key))
    with open_hashed(replace(local, copies=(bad, good)), key) as stream:
        assert stream.read() == right
    assert path_of(local, key).read_bytes() == right


def test_what_was_hashed_counts_as_whole_until_it_is_touched_or_the_time_is_over(
    local: Stores,
) -> None:
    key, now = a_slice(local), [0.0]
    stores = replace(local, hashed=Hashed(seconds=100.0, clock=lambda: now[0]))
    ensure_hashed(stores, key)
    rot(path_of(local, key))
    ensure_hashed(stores, key)  # rot does not show: known as whole for a while
    now[0] = 101.0
    with pytest.raises(ObjectDamaged):
        ensure_hashed(stores, key)


def test_a_file_that_was_written_to_is_hashed_again_at_once(local: Stores) -> None:
    key = a_slice(local)
    ensure_hashed(local, key)
    path = path_of(local, key)
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ObjectDamaged):
        ensure_hashed(local, key)


def test_zero_seconds_hash_at_every_read(local: Stores) -> None:
    key = a_slice(local)
    stores = replace(local, hashed=Hashed(seconds=0))
    ensure_hashed(stores, key)
    rot(path_of(local, key))
    with pytest.raises(ObjectDamaged):
        ensure_hashed(stores, key)


def test_a_memory_of_hashes_stays_small() -> None:
    hashed = Hashed(most=3)
    for number in range(5):
        hashed.note("x", (number,))
    assert [hashed.knows("x", (number,)) for number in range(5)] == [False, False, True, True, True]


def test_putting_the_right_bytes_replaces_damaged_ones(stores: Stores) -> None:
    made, _ = grown(stores)
    content = b"right" * 100
    key = key_of(made, ObjectKind.DATA, Multihash.of(content))
    stores.objects.put(key, [content])
    damage(stores, key)
    stores.objects.put(key, [content])
    with stores.objects.open(key) as stream:
        assert stream.read() == content


def test_blocks_put_again_replace_damaged_ones(local: Stores) -> None:
    made, blocks = grown(local)
    for several in ([blocks[1]], blocks):
        rot(path_of(local, key_of(made, ObjectKind.BLOCK, blocks[1].hash)))
        local.objects.put_blocks(made.id, [(each.hash, each.raw) for each in several])
        path = path_of(local, key_of(made, ObjectKind.BLOCK, blocks[1].hash))
        assert path.read_bytes() == blocks[1].raw
    rot(path)
    local.objects.put_all([(key_of(made, ObjectKind.BLOCK, blocks[1].hash), blocks[1].raw)])
    assert path.read_bytes() == blocks[1].raw


def damage(stores: Stores, key: ObjectKey) -> None:
    """Other bytes under the same key, whatever the store is."""
    wrong = b"wrong" * 100
    if stores.objects.local_paths is not None:
        stores.objects.local_paths.path(key).write_bytes(wrong)
        return
    from odf_storage.stores.objects.s3 import S3ObjectStore

    assert isinstance(stores.objects, S3ObjectStore)
    stores.objects.bucket.call("put_object", bucket_name(key), Body=wrong)


def test_any_store_finds_the_damage_and_is_healed_by_a_put(stores: Stores) -> None:
    key = a_slice(stores)
    with stores.objects.open(key) as stream:
        right = stream.read()
    damage(stores, key)
    with pytest.raises(ObjectDamaged):
        open_hashed(stores, key)
    assert stores.damages.count() == 1
    stores.objects.put(key, [right])
    assert retry_open_damages(stores) == 1
    assert stores.damages.count() == 0
    with open_hashed(stores, key) as stream:
        assert stream.read() == right


def test_a_copy_that_rotted_is_made_again(stores: Stores, tmp_path: Path) -> None:
    key = a_slice(stores)
    dataset = dataset_of(stores, grown(stores, "kamu/other")[0])
    part = put_slice(stores, dataset.entry, 0)
    copy = local_file(dataset, ObjectKind.DATA, part.physical_hash, tmp_path / "cache")
    right = copy.read_bytes()
    assert Multihash.of(right) == part.physical_hash
    if copy.parent == tmp_path / "cache":  # the store keeps no files
        rot(copy)
        stores.hashed.clear()  # as a worker does at the begin of a job
        again = local_file(dataset, ObjectKind.DATA, part.physical_hash, tmp_path / "cache")
        assert again.read_bytes() == right
    assert key.kind is ObjectKind.DATA
