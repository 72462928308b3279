"""Objects of a bucket put and fetched by URL alone: what a URL allows, what of it is believed."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx
import pytest
from buckets import BUCKET, fresh_location, log_in
from chain_maker import some_id
from servers import S3Server
from tests.conformance.object_store import CONTENT, DATASET, HASH, KEY, content_of

from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects import s3 as module
from odf_storage.stores.objects import s3_age
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket, StoreUnavailable
from odf_storage.stores.ports.values import ObjectInfo, ObjectKey, ObjectKind, TransferUrl

MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(bucket: Bucket) -> S3ObjectStore:
    return S3ObjectStore(bucket)


def names(bucket: Bucket) -> list[str]:
    return [found.name for found in bucket.walk("")]


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
