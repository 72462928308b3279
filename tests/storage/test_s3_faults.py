"""The bucket over a network that fails: the right result or a clear error, never wrong data."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from buckets import fresh_location, log_in
from fault_proxy import FAULTS, STRANGER, FaultProxy, fault_proxy
from servers import S3Server
from tests.conformance.object_store import CONTENT, DATASET, HASH, KEY, content_of

from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.stores.objects import s3 as module
from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import Bucket, S3Limits, S3Location, StoreUnavailable
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectInfo, ObjectKey, ObjectKind

LIMITS = S3Limits(connect_s=2, read_s=2.5, tries=4)
LARGE = secrets.token_bytes(600_000)
LARGE_KEY = ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(LARGE))
ABSENT = ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(b"absent"))
ON_TWO_PAGES = 1001
NEW_KEY = ObjectKey(DATASET, ObjectKind.DATA, Multihash.of(b"new"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, s3: S3Server) -> None:
    """Tries follow each other without pauses."""
    backoff = "botocore.retries.standard.ExponentialBackoff.delay_amount"
    monkeypatch.setattr(backoff, lambda self, context: 0.01)
    log_in(monkeypatch, s3)


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def direct(quick: None, s3_bucket_url: str) -> S3ObjectStore:
    """The way around the proxy: with two objects and a reference."""
    store = S3ObjectStore(Bucket(fresh_location(s3_bucket_url)))
    store.put(KEY, [CONTENT])
    store.put(LARGE_KEY, [LARGE])
    store.write_ref(DATASET, "head", HASH)
    return store


@pytest.fixture
def store(direct: S3ObjectStore, proxy: FaultProxy) -> S3ObjectStore:
    location = replace(direct.bucket.location, endpoint=proxy.url)
    return S3ObjectStore(Bucket(location, limits=LIMITS))


OPERATIONS: dict[str, tuple[Callable[[S3ObjectStore], object], object]] = {
    "an object's size": (lambda s: s.stat(KEY), ObjectInfo(KEY, 5)),
    "an absent object's size": (lambda s: s.stat(ABSENT), None),
    "a small object": (lambda s: content_of(s, KEY), CONTENT),
    "a large object": (lambda s: content_of(s, LARGE_KEY), LARGE),
    "the list": (
        lambda s: {info.key for info in s.list(DATASET)},
        {KEY, LARGE_KEY},
    ),
    "the reference": (lambda s: s.read_ref(DATASET, "head"), HASH),
    "a settled object": (lambda s: s.settle(KEY), ObjectInfo(KEY, 5)),
    "a new object": (lambda s: s.put(NEW_KEY, [b"new"]), ObjectInfo(NEW_KEY, 3)),
    "the same object again": (lambda s: s.put(KEY, [CONTENT]), ObjectInfo(KEY, 5)),
    "a moved reference": (lambda s: s.write_ref(DATASET, "head", HASH), None),
    "a deletion": (lambda s: s.delete(ABSENT), None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_after_one_failure_the_result_is_right(
    store: S3ObjectStore, direct: S3ObjectStore, proxy: FaultProxy, fault: str
) -> None:
    for name, (work, expected) in OPERATIONS.items():
        proxy.clear()
        proxy.then(fault)
        assert work(store) == expected, name
        direct.delete(NEW_KEY)


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"cut short", "reset in between"}))
def test_a_server_that_always_fails_is_not_available(
    store: S3ObjectStore, direct: S3ObjectStore, proxy: FaultProxy, fault: str
) -> None:
    proxy.always = fault
    for name, (work, _) in OPERATIONS.items():
        proxy.seen.clear()
        with pytest.raises(StoreUnavailable):
            print(name, work(store))
        assert len(proxy.seen) <= LIMITS.tries, name
        if fault == "slow":
            break
    assert content_of(direct, KEY) == CONTENT
    assert direct.read_ref(DATASET, "head") == HASH


def test_a_404_of_somebody_else_is_no_absence(store: S3ObjectStore, proxy: FaultProxy) -> None:
    proxy.always = STRANGER
    for work in (
        lambda: store.stat(KEY),
        lambda: store.settle(KEY),
        lambda: store.open(KEY),
        lambda: list(store.list(DATASET)),
        lambda: store.put(KEY, [CONTENT]),
        lambda: store.read_ref(DATASET, "head"),
    ):
        with pytest.raises(StoreUnavailable):
            work()


@pytest.fixture(scope="module")
def two_pages(s3: S3Server, s3_bucket_url: str) -> S3Location:
    """Where there are more blocks than one page of a listing has."""
    location = fresh_location(s3_bucket_url)
    with pytest.MonkeyPatch.context() as patch:
        log_in(patch, s3)
        blocks = [(Multihash.of(raw), raw) for raw in map(b"%d".__mod__, range(ON_TWO_PAGES))]
        S3ObjectStore(Bucket(location)).put_blocks(DATASET, blocks)
    return location


@pytest.mark.parametrize("fault", ["busy", "cut short", "reset"])
def test_a_listing_that_breaks_off_goes_on_where_it_was(
    quick: None, two_pages: S3Location, proxy: FaultProxy, fault: str
) -> None:
    store = S3ObjectStore(Bucket(replace(two_pages, endpoint=proxy.url), limits=LIMITS))
    proxy.then("pass", fault)
    found = [info.key for info in store.list(DATASET)]
    expected = sorted(str(Multihash.of(b"%d" % number)) for number in range(ON_TWO_PAGES))
    assert [str(key.hash) for key in found if key.kind is ObjectKind.BLOCK] == expected
    assert "start-after" in proxy.seen[2]


@pytest.mark.parametrize("fault", ["cut short", "reset in between"])
def test_a_download_that_keeps_breaking_off_is_continued_and_right(
    store: S3ObjectStore, proxy: FaultProxy, fault: str
) -> None:
    proxy.then(*[fault] * 4)
    with store.open(LARGE_KEY) as stream:
        assert b"".join(iter(lambda: stream.read(100_000), b"")) == LARGE
    assert len(proxy.seen) >= 5


def test_a_download_never_ends_early(store: S3ObjectStore, proxy: FaultProxy) -> None:
    with store.open(LARGE_KEY) as stream:
        stream.seek(100_000)
        proxy.always = "reset"
        with pytest.raises(StoreUnavailable):
            stream.read()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_large_object_is_whole_or_not_there(
    store: S3ObjectStore,
    direct: S3ObjectStore,
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    part = 5 * 1024 * 1024
    monkeypatch.setattr(module, "PART_BYTES", part)
    content = secrets.token_bytes(part + 1000)
    key = ObjectKey(DATASET, ObjectKind.CHECKPOINT, Multihash.of(content))
    for at in range(5):  # look, begin, two parts, complete
        proxy.clear()
        proxy.then(*["pass"] * at, fault)
        assert store.put(key, [content]).size == len(content)
        assert content_of(direct, key) == content
        direct.delete(key)


def test_nothing_that_can_happen_makes_an_object_wrong(
    store: S3ObjectStore, direct: S3ObjectStore, proxy: FaultProxy
) -> None:
    dice = random.Random(20)
    kept: dict[ObjectKey, bytes] = {}
    failures = 0
    for _ in range(120):
        proxy.clear()
        proxy.then(*dice.choices([*FAULTS.keys() - {"slow"}, "pass"], k=dice.randrange(5)))
        content = dice.randbytes(dice.choice([0, 1, 1000, 100_000]))
        key = ObjectKey(DATASET, ObjectKind.CHECKPOINT, Multihash.of(content))
        try:
            if dice.random() < 0.4:
                store.put(key, [content])
                kept[key] = content
            elif dice.random() < 0.3:
                with pytest.raises(HashMismatch):
                    store.put(ABSENT, [content])
            elif kept:
                known = dice.choice(list(kept))
                assert content_of(store, known) == kept[known]
                assert store.stat(known) == ObjectInfo(known, len(kept[known]))
        except StoreUnavailable:
            failures += 1
        except ObjectNotFound:
            pytest.fail("an object that is there was said to be absent")
    assert failures < 60
    listed = {info.key: info.size for info in direct.list(DATASET)}
    assert ABSENT not in listed
    for key in kept:
        assert content_of(direct, key) == kept[key]
