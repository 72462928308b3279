"""Slices become files: linked where the store has them, copied once where it has not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.workers.derivatives import root
from throwaway import throwaway_stores

from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.healing import ObjectDamaged
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.jobs.transform.result import InputFiles

CONTENT = b"rows" * 100


def kept(stores: Stores, content: bytes = CONTENT) -> tuple[Any, Multihash]:
    dataset = root(stores, "cities")
    name = Multihash.of(content)
    stores.objects.put(ObjectKey(dataset.id, ObjectKind.DATA, name), [content])
    return dataset, name


def test_files_of_the_store_are_linked_and_outlive_it(tmp_path: Path) -> None:
    stores = open_stores(StoreSettings(data=tmp_path / "node"))
    dataset, name = kept(stores)
    files = InputFiles(tmp_path / "job", tmp_path / "cache", cache_bytes=0)
    path = files.get(dataset, ObjectKind.DATA, name)
    assert not (tmp_path / "cache").exists()
    stores.objects.delete(ObjectKey(dataset.id, ObjectKind.DATA, name))
    assert path.read_bytes() == CONTENT
    stores.close()


def test_what_is_no_file_is_copied_once(tmp_path: Path) -> None:
    stores = throwaway_stores()
    dataset, name = kept(stores)
    cache = tmp_path / "cache"
    InputFiles(tmp_path / "one", cache, cache_bytes=1000).get(dataset, ObjectKind.DATA, name)
    stores.objects.delete(ObjectKey(dataset.id, ObjectKind.DATA, name))
    again = InputFiles(tmp_path / "two", cache, cache_bytes=1000)
    assert again.get(dataset, ObjectKind.DATA, name).read_bytes() == CONTENT


def test_the_cache_keeps_to_its_limit_and_no_job_loses_its_files(tmp_path: Path) -> None:
    stores = throwaway_stores()
    dataset, first = kept(stores)
    second = Multihash.of(CONTENT + b"!")
    stores.objects.put(ObjectKey(dataset.id, ObjectKind.DATA, second), [CONTENT + b"!"])
    cache = tmp_path / "cache"
    files = InputFiles(tmp_path / "job", cache, cache_bytes=len(CONTENT) + 10)
    path = files.get(dataset, ObjectKind.DATA, first)
    files.get(dataset, ObjectKind.DATA, second)
    files.trim()
    assert [entry.name for entry in cache.iterdir()] == [str(second)]
    assert path.read_bytes() == CONTENT


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    dataset, _ = kept(throwaway_stores())
    files = InputFiles(tmp_path / "job", tmp_path / "cache", cache_bytes=0)
    with pytest.raises(ObjectDamaged, match="missing"):
        files.get(dataset, ObjectKind.DATA, Multihash.of(b"other"))
