"""Lists of a dataset's slices for S3 clients: folders of files in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pytest
from botocore import UNSIGNED
from botocore.client import Config
from botocore.exceptions import ClientError
from iceberg_clients import load_extensions
from service import Service, serving
from table_made import TableMade

from odf_node.service.accounts.accounts import ensure_account
from odf_node.service.auth.signed_urls import ACCESS_KEY
from odf_node.service.objects.listing import ListedObject, Listing, listed_xml
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Visibility

TOWNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])
SLICES = 5


class Served:
    """A private dataset of some slices, and a public one."""

    def __init__(self, service: Service, account: str, bucket: str, folder: str) -> None:
        self.service, self.bucket, self.folder = service, bucket, folder
        stores = service.node.stores
        self.towns = TableMade(stores, f"{account}/towns", TOWNS)
        for at in range(SLICES):
            self.towns.add([{"city": f"c{at}", "pop": at}])
        self.open = TableMade(stores, f"{account}/open", TOWNS, visibility=Visibility.PUBLIC)
        self.open.add([{"city": "x", "pop": 1}])
        owner = ensure_account(stores.accounts, account, os.urandom)
        self.keys = service.node.vended_keys.make(self.towns.entry.id, owner.id)

    @property
    def wanted(self) -> list[str]:
        names = [str(part.physical_hash) for part in self.towns.parts]
        return sorted(f"{self.folder}data/{name}" for name in names)


@pytest.fixture(scope="module", params=["multi", "single"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    many = request.param == "multi"
    with serving(tmp_path_factory.mktemp("node"), tenancy=request.param) as service:
        if many:
            yield Served(service, "alice", "alice", "towns/")
        else:
            yield Served(service, "kamu", "towns", "")


@pytest.fixture(scope="module")
def client(served: Served) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=served.service.url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=served.keys.secret,
        aws_session_token=served.keys.token,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def test_slices_of_the_dataset_are_listed_in_pages_with_their_sizes(served, client):
    asked = {"Bucket": served.bucket, "Prefix": f"{served.folder}data/"}
    (page,) = client.get_paginator("list_objects_v2").paginate(**asked)
    assert [each["Key"] for each in page["Contents"]] == served.wanted
    for each in page["Contents"]:
        head = client.head_object(Bucket=served.bucket, Key=each["Key"])
        assert (head["ContentLength"], head["ETag"]) == (each["Size"], each["ETag"])
    pages = list(client.get_paginator("list_objects_v2").paginate(**asked, MaxKeys=2))
    assert len(pages) == 3
    found = [each["Key"] for page in pages for each in page["Contents"]]
    assert found == served.wanted


def test_folders_are_told_if_asked(served, client):
    asked = {"Bucket": served.bucket, "Prefix": served.folder, "Delimiter": "/"}
    if not served.folder:
        asked["Prefix"] = "d"
    found = client.list_objects_v2(**asked)
    assert [each["Prefix"] for each in found["CommonPrefixes"]] == [f"{served.folder}data/"]
    assert (found["KeyCount"], found["IsTruncated"], "Contents" in found) == (1, False, False)


def test_keys_list_no_other_dataset(served, client):
    elsewhere = {"Bucket": served.bucket, "Prefix": "open/data/"}
    if not served.folder:
        elsewhere = {"Bucket": "open", "Prefix": "data/"}
    for asked in (elsewhere, {**elsewhere, "Bucket": "missing"}):
        with pytest.raises(ClientError) as refused:
            client.list_objects_v2(**asked)
        assert refused.value.response["Error"]["Code"] == "AccessDenied"


def test_public_slices_are_listed_without_keys_and_private_ones_are_not(served):
    config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"})
    stranger = boto3.client(
        "s3", endpoint_url=served.service.url, region_name="us-east-1", config=config
    )
    bucket, prefix = ("alice", "open/data/") if served.folder else ("open", "data/")
    found = stranger.list_objects_v2(Bucket=bucket, Prefix=prefix)
    assert found["KeyCount"] == 1
    with pytest.raises(ClientError) as refused:
        stranger.list_objects_v2(Bucket=served.bucket, Prefix=f"{served.folder}data/")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_arrow_and_duckdb_read_a_folder(served):
    files = pafs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=served.keys.secret,
        session_token=served.keys.token,
        region="us-east-1",
        endpoint_override=served.service.url,
        scheme="http",
    )
    folder = f"{served.bucket}/{served.folder}data"
    found = ds.dataset(folder, filesystem=files).to_table()
    assert sorted(found["pop"].to_pylist()) == list(range(SLICES))
    with duckdb.connect() as db:
        load_extensions(db)
        db.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{ACCESS_KEY}', SECRET '{served.keys.secret}', "
            f"SESSION_TOKEN '{served.keys.token}', REGION 'us-east-1', URL_STYLE 'path', "
            f"USE_SSL false, ENDPOINT '{served.service.url.removeprefix('http://')}')"
        )
        rows = db.execute(f"SELECT pop FROM read_parquet('s3://{folder}/*')").fetchall()
    assert sorted(rows) == [(at,) for at in range(SLICES)]


@pytest.mark.parametrize("asked", ["max-keys=x", "max-keys=-1", "prefix=" + "towns/" * 300])
def test_damaged_lists_are_refused(served, asked):
    path = "/alice" if served.folder else "/open"
    prefix = "" if "prefix" in asked else "&prefix=" + ("open/" if served.folder else "")
    with served.service.http() as http:
        answer = http.get(f"{path}?list-type=2{prefix}&{asked}")
        assert answer.status_code in (400, 404), answer.text
        assert http.get(path).status_code in (200, 303, 404)


def test_pages_go_on_behind_a_folder_that_was_told():
    objects = [ListedObject(f"a/{at}", str(at), 1, Instant(0)) for at in range(3)]
    objects += [ListedObject(f"b/{at}", str(at), 1, Instant(0)) for at in range(3)]
    first = listed_xml("x", Listing(delimiter="/", most=1), objects)
    assert "<Prefix>a/</Prefix>" in first
    assert "<Prefix>b/</Prefix>" not in first
    after = first.partition("<NextContinuationToken>")[2].partition("<")[0]
    second = listed_xml("x", Listing(delimiter="/", most=1, after=after), objects)
    assert "<Prefix>a/</Prefix>" not in second
    assert "<Prefix>b/</Prefix>" in second
    assert "<IsTruncated>false</IsTruncated>" in second
