"""Uploads that break off and go on: what arrived stays, and only whole objects are seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chain_maker import some_id
from refusals import refusing

from odf_protocol.instant import Instant
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.objects.memory import MemoryObjectStore
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

CONTENT = os.urandom(3_000_000)
KEY = ObjectKey(some_id(), ObjectKind.DATA, Multihash.of(CONTENT))


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path)


def append(store: LocalObjectStore, offset: int, *chunks: bytes, key: ObjectKey = KEY) -> int:
    assert store.partial is not None
    return store.partial.append(key, offset, chunks, total=len(CONTENT))


def received(store: LocalObjectStore) -> int:
    assert store.partial is not None
    return store.partial.received(KEY)


def test_an_object_appears_once_all_of_it_is_here(store: LocalObjectStore) -> None:
    assert received(store) == 0
    assert append(store, 0, CONTENT[:10], CONTENT[10:1_500_000]) == 1_500_000
    assert received(store) == 1_500_000
    assert store.stat(KEY) is None
    assert append(store, 1_500_000, CONTENT[1_500_000:]) == len(CONTENT)
    found = store.stat(KEY)
    assert found is not None
    assert found.size == len(CONTENT)
    with store.open(KEY) as stream:
        assert stream.read() == CONTENT
    assert received(store) == 0
    assert [item.key for item in store.list(KEY.dataset)] == [KEY]


def test_what_arrived_before_a_break_stays(store: LocalObjectStore) -> None:
    def breaking():
        yield CONTENT[:1000]
        raise ConnectionResetError

    assert store.partial is not None
    with pytest.raises(ConnectionResetError):
        store.partial.append(KEY, 0, breaking(), total=len(CONTENT))
    assert received(store) == 1000
    append(store, 1000, CONTENT[1000:])
    assert store.stat(KEY) is not None


def test_an_upload_goes_on_where_it_broke_off_and_nowhere_else(store: LocalObjectStore) -> None:
    append(store, 0, CONTENT[:1000])
    for offset in (0, 999, 1001):
        with refusing("OffsetMismatch") as refused:
            append(store, offset, CONTENT[offset:])
        assert refused.value.facts["offset"] == 1000
    assert received(store) == 1000


def test_other_content_is_never_seen_and_not_kept(store: LocalObjectStore) -> None:
    append(store, 0, b"\0" * 1000)
    with pytest.raises(HashMismatch):
        append(store, 1000, CONTENT[1000:])
    assert store.stat(KEY) is None
    assert received(store) == 0
    append(store, 0, CONTENT)
    assert store.stat(KEY) is not None


def test_what_a_crash_garbled_on_disk_is_noticed(store: LocalObjectStore) -> None:
    append(store, 0, CONTENT[:2000])
    (partial,) = store.path(KEY).parent.glob(".pending-*")
    partial.write_bytes(CONTENT[:1000] + b"\0" * 1000)
    with pytest.raises(HashMismatch):
        append(store, 2000, CONTENT[2000:])
    assert received(store) == 0


def test_two_do_not_add_to_one_upload(store: LocalObjectStore) -> None:
    def slowly():
        yield CONTENT[:1000]
        with refusing("UploadBusy"):
            append(store, 0, CONTENT)
        yield CONTENT[1000:]

    assert store.partial is not None
    store.partial.append(KEY, 0, slowly(), total=len(CONTENT))
    assert store.stat(KEY) is not None


def test_a_killed_process_leaves_what_it_wrote(store: LocalObjectStore) -> None:
    """Its lock goes with it."""
    script = """
import sys, os, signal
from pathlib import Path
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
def chunks():
    yield b"x" * 100_000
    os.kill(os.getpid(), signal.SIGKILL)
store = LocalObjectStore(Path(sys.argv[1]))
key = ObjectKey(DatasetId.parse(sys.argv[2]), ObjectKind.DATA, Multihash.parse(sys.argv[3]))
store.partial.append(key, 0, chunks(), total=3_000_000)
"""
    words = [str(store.root), str(KEY.dataset), str(KEY.hash)]
    done = subprocess.run([sys.executable, "-c", script, *words], check=False)
    assert done.returncode == -9
    left = received(store)
    assert left <= 100_000
    with pytest.raises(HashMismatch):
        append(store, left, CONTENT[left:])
    append(store, 0, CONTENT)
    assert store.stat(KEY) is not None


def test_what_nobody_goes_on_with_is_collected(store: LocalObjectStore) -> None:
    append(store, 0, CONTENT[:1000])
    (partial,) = store.path(KEY).parent.glob(".pending-*")
    assert store.remove_abandoned() == 0
    os.utime(partial, (0, 0))
    assert store.remove_abandoned(before=Instant(1_000_000_000)) == 1
    assert received(store) == 0


def test_a_store_without_files_takes_objects_in_one_go() -> None:
    assert MemoryObjectStore().partial is None
