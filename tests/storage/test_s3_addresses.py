"""Where a bucket is and who may enter: its URL, its server, its keys."""

from __future__ import annotations

import pytest
from buckets import BUCKET, log_in
from refusals import refusing
from servers import S3Server
from tests.conformance.object_store import CONTENT, KEY

from odf_storage.stores.objects.s3 import S3ObjectStore
from odf_storage.stores.objects.s3_bucket import (
    Bucket,
    S3Limits,
    S3Location,
    StoreMisconfigured,
    StoreUnavailable,
)

FAST = S3Limits(connect_s=2, read_s=2, tries=2)


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
    with refusing("MalformedStoreUrl") as refused:
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
