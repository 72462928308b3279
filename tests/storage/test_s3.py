"""The object store in a bucket of a real S3 server: its promises, its layout, its two ways in."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.conformance.object_store import (
    CONTENT,
    DATASET,
    HASH,
    KEY,
    ObjectStoreContract,
    content_of,
)

from odf_protocol.identity import DatasetAlias
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects import s3 as module
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket
from odf_storage.stores.objects.s3_stream import open_stream
from odf_storage.stores.ports.values import ObjectInfo, ObjectKey, ObjectKind

PART_BYTES = 5 * 1024 * 1024
"""The smallest part that S3 takes."""


@pytest.fixture
def store(bucket: Bucket) -> S3ObjectStore:
    return S3ObjectStore(bucket)


class TestS3ObjectStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, bucket: Bucket) -> S3ObjectStore:
        return S3ObjectStore(bucket)


def names(bucket: Bucket) -> list[str]:
    return [found.name for found in bucket.walk("")]


# --- layout ---------------------------------------------------------------------------------


def test_the_bucket_is_a_repository_laid_out_as_the_specification_has_it(
    store: S3ObjectStore, bucket: Bucket
) -> None:
    for kind in ObjectKind:
        store.put(ObjectKey(DATASET, kind, HASH), [CONTENT])
    store.write_ref(DATASET, "head", HASH)
    store.write_alias(DATASET, DatasetAlias.parse("kamu/Foo"))
    folder = DATASET.multibase
    assert folder.startswith("fed01")
    assert set(names(bucket)) == {
        f"{folder}/blocks/{HASH}",
        f"{folder}/data/{HASH}",
        f"{folder}/checkpoints/{HASH}",
        f"{folder}/refs/head",
        f"{folder}/info/alias",
        f".spooled/{folder}/{HASH}",
    }
    texts = {"refs/head": str(HASH), "info/alias": "kamu/Foo"}
    for path, text in texts.items():
        assert bucket.call("get_object", f"{folder}/{path}")["Body"].read() == text.encode()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"f1620", b"x" * 100_000])
def test_a_reference_that_is_no_hash_is_no_reference(
    store: S3ObjectStore, bucket: Bucket, content: bytes
) -> None:
    bucket.call("put_object", f"{DATASET.multibase}/refs/head", Body=content)
    assert store.read_ref(DATASET, "head") is None


def test_strangers_in_the_bucket_are_skipped(store: S3ObjectStore, bucket: Bucket) -> None:
    store.put(KEY, [CONTENT])
    folder = f"{DATASET.multibase}/data"
    for name in ("README", str(HASH).upper(), f"{HASH}.tmp", f"{Multihash.of(b'x')}/deeper"):
        bucket.call("put_object", f"{folder}/{name}", Body=b"?")
    assert [info.key for info in store.list(DATASET)] == [KEY]


def test_listing_and_removal_go_on_beyond_one_page(store: S3ObjectStore, bucket: Bucket) -> None:
    folder = f"{DATASET.multibase}/data"
    hashes = [Multihash.of(str(number).encode()) for number in range(2001)]
    obstore = bucket.obstore
    assert obstore is not None

    def put(object_hash: Multihash) -> None:
        assert obstore.create(f"{folder}/{object_hash}", b".")

    with ThreadPoolExecutor(8) as pool:
        for start, end in ((0, 1001), (1001, 2001)):
            list(pool.map(put, hashes[start:end]))
            assert {info.key.hash for info in store.list(DATASET)} == set(hashes[:end])
    store.remove(DATASET)
    assert names(bucket) == []


@pytest.mark.parametrize("count", [0, 1000, 1001, 10_001])
def test_every_page_of_a_listing_is_read_once(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Pages as the server gives them to boto3; so many real objects would take a while."""
    bucket.obstore = None
    start = f"{bucket.location.prefix}{DATASET.multibase}/data/"
    hashes = sorted(str(Multihash.of(str(number).encode())) for number in range(count))
    facts = {"Size": 1, "ETag": "x", "LastModified": datetime(2026, 1, 1, tzinfo=UTC)}
    asked: list[str] = []

    def page(operation: str, Prefix: str, ContinuationToken: str = "0") -> dict[str, Any]:
        assert operation == "list_objects_v2"
        if Prefix != start:
            return {"IsTruncated": False}
        asked.append(ContinuationToken)
        at = int(ContinuationToken)
        found = [{"Key": start + name, **facts} for name in hashes[at : at + 1000]]
        more = {"IsTruncated": True, "NextContinuationToken": str(at + 1000)}
        return {"Contents": found, **(more if at + 1000 < count else {"IsTruncated": False})}

    monkeypatch.setattr(Bucket, "call", lambda _self, *words, **more: page(*words, **more))
    assert [str(info.key.hash) for info in store.list(DATASET)] == hashes
    assert asked == [str(at) for at in range(0, max(1, count), 1000)]


# --- the quick way --------------------------------------------------------------------------


def test_what_comes_by_the_thousand_goes_the_quick_way(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_self: Bucket, operation: str, *_: object, **__: object) -> None:
        pytest.fail(f"{operation} by boto3")

    monkeypatch.setattr(Bucket, "call", slow)
    assert store.put(KEY, [CONTENT]).size == 5
    assert store.put(KEY, [CONTENT]).size == 5
    assert content_of(store, KEY) == CONTENT
    with store.open(KEY, offset=3) as stream:
        assert stream.read() == CONTENT[3:]
    assert store.stat(KEY) == ObjectInfo(KEY, 5)
    assert [info.key for info in store.list(DATASET)] == [KEY]


def test_both_ways_see_the_same(store: S3ObjectStore, bucket: Bucket) -> None:
    store.put(KEY, [CONTENT])
    bucket.call("put_object", f"{DATASET.multibase}/data/it's (1)*~%41 é", Body=b"?")
    quick = list(bucket.walk_folder(DATASET.multibase))
    found = bucket.stat(f"{DATASET.multibase}/data/{HASH}")
    bucket.obstore = None
    assert len(quick) == 2
    assert list(bucket.walk_folder(DATASET.multibase)) == quick
    assert bucket.stat(f"{DATASET.multibase}/data/{HASH}") == found


def test_a_key_with_an_empty_part_is_no_other_key(bucket: Bucket) -> None:
    bucket.create("a//b", b"1")
    assert bucket.stat("a//b").size == 1
    with open_stream(bucket, "a//b") as stream:
        assert stream.read() == b"1"


def test_a_forked_process_reads_by_the_other_way(
    store: S3ObjectStore, bucket: Bucket, s3_bucket_url: str
) -> None:
    """Threads of the quick way do not live on in it: a call would wait for ever."""
    store.put(KEY, [CONTENT])
    url = f"{s3_bucket_url}/{bucket.location.prefix}".rstrip("/")
    done = subprocess.run(
        [sys.executable, "-c", FORKING, url, f"{DATASET.multibase}/data/{HASH}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["hello", "hello", "hello"]


FORKING = """
import os, sys
from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
from odf_storage.stores.objects.s3_stream import open_stream

def show():
    for bucket in (first, Bucket(first.location)):
        print(open_stream(bucket, sys.argv[2]).read().decode(), flush=True)
        if os.getpid() == parent:
            break

parent, first = os.getpid(), Bucket(S3Location.parse(sys.argv[1]))
show()
if os.fork() == 0:
    show()
    os._exit(0)
os.wait()
"""


# --- large objects --------------------------------------------------------------------------


def test_an_object_of_several_parts_is_what_was_put(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = PART_BYTES
    monkeypatch.setattr(module, "PART_BYTES", part)
    content = secrets.token_bytes(2 * part + 12345)
    key = ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(content))
    chunks = [content[start : start + 1_000_003] for start in range(0, len(content), 1_000_003)]
    assert store.put(key, chunks) == ObjectInfo(key, len(content))
    assert content_of(store, key) == content
    with store.open(key, offset=part - 1) as stream:
        assert stream.read(2) == content[part - 1 : part + 1]


def test_nothing_is_left_of_large_writes_that_failed(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", PART_BYTES)
    part = bytes(PART_BYTES)

    def breaks_off() -> Iterator[bytes]:
        yield from (part, part, b"!")
        raise ZeroDivisionError

    with pytest.raises(HashMismatch):
        store.put(KEY, [part, part, b"!"])
    with pytest.raises(ZeroDivisionError):
        store.put(KEY, breaks_off())
    assert names(bucket) == []
    prefix = bucket.location.prefix
    assert not bucket.call("list_multipart_uploads", Prefix=prefix).get("Uploads")


def test_many_writers_of_one_large_object_all_succeed(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", PART_BYTES)
    content = bytes(PART_BYTES + 1)
    key = ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(content))
    sizes: list[int] = []
    writers = [
        threading.Thread(target=lambda: sizes.append(store.put(key, [content]).size))
        for _ in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sizes == [len(content)] * 4
    assert store.put(key, [content]) == ObjectInfo(key, len(content))
    with pytest.raises(HashMismatch):
        store.put(key, [bytes(PART_BYTES), b"!"])
    assert content_of(store, key) == content


def test_an_object_that_exists_is_left_alone(store: S3ObjectStore, bucket: Bucket) -> None:
    store.put(KEY, [CONTENT])
    before = next(bucket.walk("")).modified
    store.put(KEY, [CONTENT])
    assert next(bucket.walk("")).modified == before


def test_a_stream_can_be_read_from_any_place(store: S3ObjectStore) -> None:
    content = secrets.token_bytes(700_000)
    key = ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(content))
    store.put(key, [content])
    with store.open(key) as stream:
        assert stream.seekable()
        assert stream.seek(-8, 2) == len(content) - 8
        assert stream.read() == content[-8:]
        assert stream.seek(5) == 5
        assert stream.read(10) == content[5:15]
        assert stream.seek(600_000, 1) == 600_015
        assert stream.read() == content[600_015:]
        assert stream.read(1) == b""
