"""The object store in a bucket of a real S3 server: its promises, its layout, its URLs."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx
import pytest
from buckets import BUCKET, fresh_location, log_in
from chain_maker import some_id
from servers import S3Server

from protocol.identity import DatasetAlias
from protocol.instant import NANOS, Instant
from protocol.multihash import HashMismatch, Multihash
from storage.objects import s3 as module
from storage.objects import s3_age
from storage.objects.s3 import S3ObjectStore
from storage.objects.s3_bucket import (
    Bucket,
    MalformedStoreUrl,
    S3Limits,
    S3Location,
    StoreMisconfigured,
    StoreUnavailable,
)
from storage.objects.s3_stream import open_stream
from storage.values import ObjectInfo, ObjectKey, ObjectKind, TransferUrl
from tests.conformance.object_store import (
    CONTENT,
    DATASET,
    HASH,
    KEY,
    ObjectStoreContract,
    content_of,
)

MINUTE = timedelta(minutes=1)
PART_BYTES = 5 * 1024 * 1024
"""The smallest part that S3 takes."""
FAST = S3Limits(connect_s=2, read_s=2, tries=2)


@pytest.fixture
def bucket(s3_bucket_url: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A part of the bucket that nobody else uses."""
    log_in(monkeypatch, s3)
    return Bucket(fresh_location(s3_bucket_url))


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
    hashes = [Multihash.of(str(number).encode()) for number in range(2500)]
    swift = bucket.swift
    assert swift is not None

    def put(object_hash: Multihash) -> None:
        assert swift.create(f"{folder}/{object_hash}", b".")

    with ThreadPoolExecutor(8) as pool:
        for start, end in ((0, 1001), (1001, 2500)):
            list(pool.map(put, hashes[start:end]))
            assert {info.key.hash for info in store.list(DATASET)} == set(hashes[:end])
    store.remove(DATASET)
    assert names(bucket) == []


@pytest.mark.parametrize("count", [0, 1000, 1001, 10_001])
def test_every_page_of_a_listing_is_read_once(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Pages as the server gives them to boto3; so many real objects would take a while."""
    bucket.swift = None
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
    found = bucket.look(f"{DATASET.multibase}/data/{HASH}")
    bucket.swift = None
    assert len(quick) == 2
    assert list(bucket.walk_folder(DATASET.multibase)) == quick
    assert bucket.look(f"{DATASET.multibase}/data/{HASH}") == found


def test_a_key_with_an_empty_part_is_no_other_key(bucket: Bucket) -> None:
    bucket.create("a//b", b"1")
    assert bucket.look("a//b").size == 1
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
from storage.objects.s3_bucket import Bucket, S3Location
from storage.objects.s3_stream import open_stream

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


# --- transfer by URL ------------------------------------------------------------------------


def put_by(url: TransferUrl, content: bytes, **changes: str) -> int:
    headers = {"content-type": "application/octet-stream", **dict(url.headers), **changes}
    return httpx.put(url.url, content=content, headers=headers).status_code


def upload_url(store: S3ObjectStore, key: ObjectKey = KEY, size: int = 5) -> TransferUrl:
    url = store.upload_url(key, size=size, ttl=MINUTE)
    assert url is not None
    return url


def test_an_object_is_fetched_by_its_url_alone(store: S3ObjectStore) -> None:
    store.put(KEY, [CONTENT])
    url = store.download_url(KEY, ttl=MINUTE)
    assert url is not None
    assert url.headers == ()
    assert url.expires_at is not None
    assert httpx.get(url.url).content == CONTENT
    assert httpx.put(url.url, content=b"x").status_code == 403
    assert httpx.delete(url.url).status_code == 403


def test_urls_may_be_of_another_address_than_the_one_the_node_uses(
    s3_bucket_url: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is signed: it has to be the one that is asked."""
    log_in(monkeypatch, s3)
    location = fresh_location(s3_bucket_url)
    assert location.endpoint is not None
    outside = location.endpoint.replace("127.0.0.1", "localhost")
    assert outside != location.endpoint
    store = S3ObjectStore(Bucket(location, public_endpoint=outside))
    assert put_by(upload_url(store), CONTENT) == 200
    assert store.settle(KEY) is not None
    url = store.download_url(KEY, ttl=MINUTE)
    assert url is not None
    assert url.url.startswith(outside)
    assert httpx.get(url.url).content == CONTENT
    inside = url.url.replace(outside, location.endpoint)
    assert httpx.get(inside).status_code == 403


def test_what_was_put_by_url_is_invisible_until_it_was_looked_at(store: S3ObjectStore) -> None:
    url = upload_url(store)
    assert put_by(url, CONTENT) == 200
    assert store.stat(KEY) is None
    assert list(store.list(DATASET)) == []
    assert store.settle(KEY) == ObjectInfo(KEY, 5)
    assert store.stat(KEY) == ObjectInfo(KEY, 5)
    assert content_of(store, KEY) == CONTENT
    assert store.settle(KEY) == ObjectInfo(KEY, 5)


def test_wrong_bytes_put_by_url_never_become_visible(store: S3ObjectStore, bucket: Bucket) -> None:
    assert put_by(upload_url(store), b"jello") == 200
    with pytest.raises(HashMismatch):
        store.settle(KEY)
    assert store.stat(KEY) is None
    assert list(store.list(DATASET)) == []
    assert all(found.size == 0 for found in bucket.walk(""))
    assert store.settle(KEY) is None
    assert put_by(upload_url(store), CONTENT) == 200
    assert store.settle(KEY) is not None


def test_one_honest_upload_among_wrong_ones_is_enough(store: S3ObjectStore) -> None:
    for content in (b"jello", CONTENT, b"hullo"):
        assert put_by(upload_url(store), content) == 200
    assert store.settle(KEY) == ObjectInfo(KEY, 5)
    assert content_of(store, KEY) == CONTENT


def test_an_upload_url_is_good_for_one_write(store: S3ObjectStore) -> None:
    url = upload_url(store)
    assert put_by(url, CONTENT) == 200
    assert put_by(url, b"jello") == 412
    store.settle(KEY)
    assert put_by(url, b"jello") == 412
    assert content_of(store, KEY) == CONTENT


def changed(url: str, **query: str) -> str:
    parts = urlsplit(url)
    new = {**dict(parse_qsl(parts.query)), **query}
    return urlunsplit(parts._replace(query=urlencode(new)))


def test_an_upload_url_cannot_be_widened(store: S3ObjectStore, bucket: Bucket) -> None:
    url = upload_url(store)
    final = url.url.replace("/.staging", "").rpartition("/")[0]
    elsewhere = url.url.replace(str(HASH), str(Multihash.of(b"jello")))
    longer = changed(url.url, **{"X-Amz-Expires": "43200"})
    unsigned = changed(url.url, **{"X-Amz-SignedHeaders": "host"})
    for wider in (final, elsewhere, longer, unsigned):
        assert wider != url.url
        assert put_by(TransferUrl(wider, url.headers), CONTENT) == 403
    assert put_by(url, CONTENT + b"!") == 403
    assert put_by(url, CONTENT[:-1]) == 403
    assert put_by(TransferUrl(url.url), CONTENT) == 403
    assert httpx.get(url.url).status_code == 403
    assert httpx.delete(url.url).status_code == 403
    assert names(bucket) == []


def test_a_download_url_cannot_be_widened(store: S3ObjectStore) -> None:
    other = ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(b"jello"))
    store.put(KEY, [CONTENT])
    store.put(other, [b"jello"])
    store.write_ref(DATASET, "head", HASH)
    url = store.download_url(KEY, ttl=MINUTE)
    assert url is not None
    there = urlsplit(url.url).path
    elsewhere = url.url.replace(str(HASH), str(other.hash))
    reference = url.url.replace(there, there.replace(f"data/{HASH}", "refs/head"))
    listing = changed(url.url.replace(there, f"/{BUCKET}/"), **{"list-type": "2"})
    longer = changed(url.url, **{"X-Amz-Expires": "43200"})
    for wider in (elsewhere, reference, listing, longer):
        assert wider != url.url
        answer = httpx.get(wider)
        assert answer.status_code == 403
        assert b"jello" not in answer.content


def test_an_expired_url_is_refused(store: S3ObjectStore, bucket: Bucket) -> None:
    url = store.upload_url(KEY, size=5, ttl=timedelta(seconds=1))
    assert url is not None
    threading.Event().wait(2.1)
    assert put_by(url, CONTENT) == 403
    assert names(bucket) == []


@pytest.mark.parametrize("size", [None, 5 * 1024**3 + 1])
def test_uploads_of_unknown_or_huge_size_go_through_the_node(
    store: S3ObjectStore, size: int | None
) -> None:
    assert store.upload_url(KEY, size=size, ttl=MINUTE) is None


def test_an_empty_object_can_be_put_by_url(store: S3ObjectStore) -> None:
    key = ObjectKey(DATASET, ObjectKind.CHECKPOINT, Multihash.of(b""))
    assert put_by(upload_url(store, key, 0), b"") == 200
    assert store.settle(key) == ObjectInfo(key, 0)


def test_remains_of_uploads_are_collected_when_they_are_old(
    store: S3ObjectStore, bucket: Bucket
) -> None:
    put_by(upload_url(store), CONTENT)
    bucket.call("create_multipart_upload", f"{DATASET.multibase}/data/{HASH}")
    assert store.remove_abandoned() == 0
    later = datetime.now(UTC) + timedelta(days=2)
    assert store.remove_abandoned(now=later, dry_run=True) == 2
    assert store.remove_abandoned(now=later) == 2
    assert names(bucket) == []


LATER = Instant(4 * 10**9 * NANOS)


def test_an_object_renewed_while_it_is_being_discarded_stays(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_age, "YOUNG", timedelta(0))
    store.put(KEY, [CONTENT])
    threading.Event().wait(2.1)
    before = Instant(time.time_ns())
    real = Bucket.call

    def renews_first(self: Bucket, operation: str, name: str | None = None, **more: Any) -> Any:
        answer = real(self, operation, name, **more)
        if operation == "put_object" and str(name).startswith(".condemned/"):
            with monkeypatch.context() as inner:
                inner.setattr(Bucket, "call", real)
                renewed.append(store.renew(KEY))
        return answer

    renewed: list[ObjectInfo | None] = []
    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "call", renews_first)
        assert not store.discard(KEY, before=before)
    assert renewed == [None]  # who renews is told to put it again
    assert store.put(KEY, [CONTENT]) == store.renew(KEY)
    assert content_of(store, KEY) == CONTENT
    assert store.discard(KEY, before=LATER)
    assert names(bucket) == []


def test_a_flag_left_by_a_crash_does_not_stop_anybody_for_long(
    store: S3ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_age, "YOUNG", timedelta(0))
    store.put(KEY, [CONTENT])
    bucket.call("put_object", f".condemned/{DATASET.multibase}/data/{HASH}", Body=b"")
    monkeypatch.setattr(module, "CREATE_PAUSE_S", 0.001)
    assert store.renew(KEY) is None
    with pytest.raises(StoreUnavailable):
        store.put(KEY, [CONTENT])
    monkeypatch.setattr(s3_age, "CONDEMNED_FOR", timedelta(seconds=-10))
    assert store.renew(KEY) == ObjectInfo(KEY, 5)


def test_a_damaged_object_is_put_aside(store: S3ObjectStore, bucket: Bucket) -> None:
    bucket.call("put_object", f"{DATASET.multibase}/data/{HASH}", Body=b"jello")
    assert store.quarantine(KEY)
    assert not store.quarantine(KEY)
    assert store.stat(KEY) is None
    aside = f".quarantine/{DATASET.multibase}/data/{HASH}"
    assert bucket.call("get_object", aside)["Body"].read() == b"jello"
    assert list(store.datasets()) == []


def test_a_removed_dataset_takes_its_staged_uploads_along(
    store: S3ObjectStore, bucket: Bucket
) -> None:
    put_by(upload_url(store), CONTENT)
    kept = ObjectKey(some_id("other"), ObjectKind.DATA, HASH)
    put_by(upload_url(store, kept), CONTENT)
    store.remove(DATASET)
    assert store.settle(KEY) is None
    assert store.settle(kept) is not None


# --- addresses and rights -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://odf", S3Location("odf", "")),
        ("s3://odf/", S3Location("odf", "")),
        ("s3://odf/a/b/", S3Location("odf", "a/b/")),
        ("s3+http://127.0.0.1:9000/odf", S3Location("odf", "", "http://127.0.0.1:9000")),
        ("s3+https://s3.example/odf/a", S3Location("odf", "a/", "https://s3.example")),
    ],
)
def test_an_objects_url_names_bucket_prefix_and_server(url: str, location: S3Location) -> None:
    assert S3Location.parse(url) == location


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "s3://Bucket",
        "s3://secret:key@odf/a",
        "s3://odf/a//b",
        "s3://odf/../b",
        "s3://odf/a?x=1",
        "s3://odf/a b",
        "s3+http:///odf/a",
        "s3+http://host",
        "s3+ftp://host/odf",
        "http://host/odf",
    ],
)
def test_other_objects_urls_are_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(MalformedStoreUrl) as refused:
        S3Location.parse(url)
    assert "secret" not in refused.value.message


def test_a_bucket_that_is_not_there_is_named(bucket: Bucket) -> None:
    bucket.check()
    missing = Bucket(S3Location("no-such-bucket", "", bucket.location.endpoint))
    with pytest.raises(StoreMisconfigured, match="no-such-bucket"):
        missing.check()
    with pytest.raises(StoreMisconfigured):
        S3ObjectStore(missing).open(KEY)


def test_a_wrong_secret_is_a_mistake_and_not_an_absence(
    bucket: Bucket, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, s3, "wrong")
    stranger = S3ObjectStore(Bucket(bucket.location, limits=FAST))
    for call in (stranger.stat, stranger.open, stranger.settle):
        with pytest.raises(StoreMisconfigured):
            call(KEY)
    with pytest.raises(StoreMisconfigured):
        stranger.put(KEY, [CONTENT])


def test_a_server_that_is_not_there_is_not_available(bucket: Bucket) -> None:
    gone = Bucket(S3Location(BUCKET, "", "http://127.0.0.1:9"), limits=FAST)
    with pytest.raises(StoreUnavailable):
        S3ObjectStore(gone).stat(KEY)
