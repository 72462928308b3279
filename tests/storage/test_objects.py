"""Object stores in memory and in a folder keep their promises; what only folders promise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chain_maker import some_id
from refusals import refusing
from tests.conformance.object_store import CONTENT, DATASET, HASH, KEY, ObjectStoreContract

from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects import files
from odf_storage.stores.objects.layout import object_path, parse_name, ref_path, store_path
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.objects.memory import MemoryObjectStore
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

UPLOAD = ObjectKey(DATASET, ObjectKind.UPLOAD, HASH)


class TestMemoryObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryObjectStore()


class TestLocalObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return LocalObjectStore(tmp_path)


@pytest.fixture
def local(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path)


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_a_put_into_a_dataset_that_is_being_removed_is_told_so(local: LocalObjectStore) -> None:
    def content() -> Iterator[bytes]:
        yield CONTENT[:1]
        local.remove(DATASET)
        yield CONTENT[1:]

    with refusing("FolderRemoved"):
        local.put(KEY, content())
    assert local.stat(KEY) is None


def test_a_source_that_is_gone_is_not_taken_for_a_dataset_that_is(
    local: LocalObjectStore, tmp_path: Path
) -> None:
    def content() -> Iterator[bytes]:
        yield (tmp_path / "elsewhere").read_bytes()

    with pytest.raises(FileNotFoundError):
        local.put(KEY, content())


def test_objects_lie_where_the_specification_puts_them(
    local: LocalObjectStore, tmp_path: Path
) -> None:
    for kind in ObjectKind:
        local.put(ObjectKey(DATASET, kind, HASH), [CONTENT])
    local.write_ref(DATASET, "head", HASH)
    local.write_alias(DATASET, DatasetAlias.parse("kamu/Foo"))
    folder = f"datasets/{DATASET.multibase}"
    assert folder.startswith("datasets/fed01")
    assert files_below(tmp_path) == {
        f"{folder}/blocks/{HASH}",
        f"{folder}/data/{HASH}",
        f"{folder}/checkpoints/{HASH}",
        f"{folder}/refs/head",
        f"{folder}/info/alias",
        f"uploads/{DATASET.multibase}/{HASH}",
    }
    assert (tmp_path / folder / "refs/head").read_bytes() == str(HASH).encode()
    assert (tmp_path / folder / "info/alias").read_bytes() == b"kamu/Foo"


def test_paths_lead_to_the_bytes_that_were_put(tmp_path: Path) -> None:
    store: ObjectStore = LocalObjectStore(tmp_path)
    paths = store.local_paths
    assert paths is not None
    assert paths.root == tmp_path
    assert not paths.path(KEY).exists()
    for key in (KEY, UPLOAD):
        store.put(key, [CONTENT])
        assert paths.path(key).read_bytes() == CONTENT
    assert list(paths.folder(DATASET, ObjectKind.DATA).iterdir()) == [paths.path(KEY)]


def test_what_is_in_memory_has_no_path() -> None:
    assert MemoryObjectStore().local_paths is None


def test_a_hash_in_any_text_form_is_one_file(local: LocalObjectStore) -> None:
    local.put(KEY, [CONTENT])
    shouted = Multihash.parse(str(HASH).upper())
    assert local.stat(ObjectKey(DATASET, ObjectKind.DATA, shouted)) is not None


def test_strangers_in_the_folder_are_skipped(local: LocalObjectStore) -> None:
    local.put(KEY, [CONTENT])
    folder = local.path(KEY).parent
    for name in (
        ".pending-0123456789abcdef",
        ".DS_Store",
        "README",
        str(HASH).upper(),
        f"{HASH}.tmp",
    ):
        (folder / name).write_bytes(b"?")
    (folder / str(Multihash.of(b"a folder"))).mkdir()
    assert [info.key for info in local.list(DATASET)] == [KEY]


def test_a_folder_with_the_name_of_an_object_is_no_object(local: LocalObjectStore) -> None:
    local.path(KEY).mkdir(parents=True)
    assert local.stat(KEY) is None
    with pytest.raises(ObjectNotFound):
        local.open(KEY)


def test_nothing_is_left_of_writes_that_failed(local: LocalObjectStore, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="announced"):
        local.put(KEY, [b"other"])
    with pytest.raises(ZeroDivisionError):
        local.put(KEY, (b"x" * (1 // 0) for _ in range(1)))
    assert files_below(tmp_path) == set()


def test_an_object_that_exists_is_not_written_again_but_young_again(
    local: LocalObjectStore,
) -> None:
    local.put(KEY, [CONTENT])
    os.utime(local.path(KEY), (1, 1))
    before = local.path(KEY).stat()
    local.put(KEY, [CONTENT])
    after = local.path(KEY).stat()
    assert before.st_ino == after.st_ino
    assert before.st_mtime + 1e9 < after.st_mtime


def test_content_reaches_the_disk_before_its_name_does(
    local: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_sync, real_rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("sync"), real_sync(handle))[1])
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (calls.append("rename"), real_rename(self, to))[1]
    )
    local.put(KEY, [CONTENT])
    calls.clear()
    local.put(ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(b"more")), [b"more"])
    assert calls == ["sync", "rename", "sync"]


def test_remains_of_a_crash_are_collected_when_they_are_old(local: LocalObjectStore) -> None:
    local.put(KEY, [CONTENT])
    local.put(UPLOAD, [CONTENT])
    old = local.path(KEY).parent / ".pending-0123456789abcdef"
    young = local.path(UPLOAD).parent / ".pending-fedcba9876543210"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    assert local.remove_abandoned() == 1
    assert (old.exists(), young.exists()) == (False, True)
    later = Instant(young.stat().st_mtime_ns + 1)
    assert files.remove_abandoned(local.root, before=later, dry_run=True) == 1
    assert files.remove_abandoned(local.root, before=later) == 1
    assert local.stat(KEY) is not None


def test_collecting_passes_over_folders_that_go_while_it_looks(
    local: LocalObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.put(KEY, [CONTENT])
    going = local.path(KEY).parent / ".pending-0123456789abcdef"
    left = local.path(KEY).parent / ".pending-fedcba9876543210"
    going.mkdir()
    left.write_bytes(b"half")
    scandir = os.scandir

    def published_meanwhile(folder: str) -> Any:
        if Path(folder) == going:
            going.rmdir()
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", published_meanwhile)
    later = Instant(left.stat().st_mtime_ns + 1_000_000_000)
    assert files.remove_abandoned(local.root, before=later, dry_run=True) == 2
    assert not going.exists()


def test_a_dataset_in_a_folder_has_no_place_for_uploads(tmp_path: Path) -> None:
    folder = FolderObjects(tmp_path)
    with refusing("NotAPartOfADataset"):
        folder.put(ObjectKind.UPLOAD, HASH, [CONTENT])
    assert files_below(tmp_path) == set()


def test_the_store_and_the_folder_of_a_dataset_see_the_same(local: LocalObjectStore) -> None:
    local.put(KEY, [CONTENT])
    local.write_alias(DATASET, DatasetAlias.parse("kamu/foo"))
    folder = FolderObjects(local.folder(DATASET).root)
    stat = folder.stat(ObjectKind.DATA, HASH)
    assert stat is not None
    assert stat.size == 5
    assert list(folder.list()) == [stat]
    assert folder.read_alias() == DatasetAlias.parse("kamu/foo")
    folder.write_ref("head", HASH)
    assert local.read_ref(DATASET, "head") == HASH


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"f1620", b"x" * 100_000])
def test_a_reference_that_is_no_hash_is_no_reference(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs/head").write_bytes(content)
    assert FolderObjects(tmp_path).read_ref("head") is None


def test_a_reference_written_with_a_newline_is_read(tmp_path: Path) -> None:
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs/head").write_text(f"{HASH}\n")
    assert FolderObjects(tmp_path).read_ref("head") == HASH


@pytest.mark.parametrize("ref", ["", "..", "../head", "a/b", "/etc/passwd", "head\0", "Head", ".x"])
def test_names_of_references_cannot_leave_their_folder(ref: str) -> None:
    with refusing("MalformedRef"):
        ref_path(ref)


def test_every_path_is_relative_and_free_of_surprises() -> None:
    for kind in ObjectKind:
        path = store_path(ObjectKey(some_id("x"), kind, HASH))
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert path.name == str(HASH)
    assert str(object_path(ObjectKind.BLOCK, HASH)) == f"blocks/{HASH}"
    assert parse_name(str(HASH)) == HASH
    assert parse_name(str(HASH).upper()) is None
