"""S3 clients read files of the dataset that their keys are for, for a while, and nothing else."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx
import pyarrow.fs as pafs
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.client import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from service import SCHEMA, Service, seeded, serving, ten_rows

from odf_node.service.accounts.accounts import ensure_account
from odf_node.service.auth.signed_urls import ACCESS_KEY, MAX_SKEW_S, S3Keys
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.stores.ports.values import ObjectKind, Visibility

TTL_S = 3600


class Clock:
    """The time of this machine, which is what clients sign by; `off_s` seconds from it."""

    off_s = 0

    def __call__(self) -> Instant:
        now = datetime.datetime.now(datetime.UTC).timestamp()
        return Instant(int((now + self.off_s) * NANOS))


class Private:
    """Two private datasets on a node that serves nobody without a token."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self.service, self.clock, self.chain = service, clock, ten_rows()
        self.entry = service.keep(self.chain, "kamu/foo", Visibility.PRIVATE)
        other = seeded().add(SetDataSchema(schema=SCHEMA)).add_rows(7)
        self.other = service.keep(other, "kamu/bar", Visibility.PRIVATE)
        self.owner = ensure_account(service.node.stores.accounts, "kamu", os.urandom)
        kind, self.name = next(key for key in self.chain.objects if key[0] is ObjectKind.DATA)
        self.content = self.chain.objects[kind, self.name]
        self.path = f"/foo/data/{self.name}"

    def keys(self) -> S3Keys:
        return self.service.node.vended_keys.make(self.entry.id, self.owner.id)


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[Private]:
    folder = tmp_path_factory.mktemp("node")
    with serving(folder, clock=clock, allow_anonymous=False, transfer_url_ttl_s=TTL_S) as service:
        yield Private(service, clock)


@pytest.fixture
def private(served: Private) -> Iterator[Private]:
    yield served
    served.clock.off_s = 0


def boto(private: Private, keys: S3Keys, **more: Any) -> Any:
    given = {"secret": keys.secret, "token": keys.token, **more}
    return boto3.client(
        "s3",
        endpoint_url=private.service.url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=given["secret"],
        aws_session_token=given["token"],
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def signed(private: Private, path: str, method: str = "GET", **more: str) -> dict[str, str]:
    """Headers of a request as botocore signs it."""
    keys = private.keys()
    request = AWSRequest(method, private.service.url + path, headers=more)
    credentials = Credentials(ACCESS_KEY, keys.secret, keys.token)
    S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    host = urlsplit(private.service.url).netloc
    return {"host": host, **{name.lower(): text for name, text in request.headers.items()}}


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/xml"
    return answer.status_code, answer.text.partition("<Code>")[2].partition("</Code>")[0]


def test_boto_reads_an_object_in_whole_and_in_part_and_its_size(private):
    client = boto(private, private.keys())
    asked = {"Bucket": "foo", "Key": f"data/{private.name}"}
    head = client.head_object(**asked)
    assert head["ContentLength"] == len(private.content)
    assert client.get_object(**asked)["Body"].read() == private.content
    part = client.get_object(**asked, Range="bytes=-8", IfMatch=head["ETag"])
    assert part["Body"].read() == private.content[-8:]


def test_arrow_reads_an_object(private):
    keys = private.keys()
    files = pafs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=keys.secret,
        session_token=keys.token,
        region="us-east-1",
        endpoint_override=private.service.url,
        scheme="http",
    )
    with files.open_input_file(f"foo/data/{private.name}") as file:
        assert file.size() == len(private.content)
        assert file.read_at(4, len(private.content) - 4) == private.content[-4:]


@pytest.mark.parametrize("header", ["x-amz-security-token", "authorization", "x-amz-date", "host"])
def test_a_request_with_one_character_changed_is_refused(private, header):
    headers = signed(private, private.path)
    with private.service.http() as http:
        assert http.get(private.path, headers=headers).content == private.content
        text = headers[header]
        for at in {len(text) - 1, len(text) - 3, len(text) // 2}:
            changed = text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]
            answer = http.get(private.path, headers={**headers, header: changed})
            assert answer.status_code in (400, 403), changed
            assert private.content not in answer.content


def test_a_signature_is_about_its_path_method_and_query(private):
    headers = signed(private, private.path)
    with private.service.http() as http:
        assert refusal(http.get(f"{private.path}?x=1", headers=headers)) == (403, "AccessDenied")
        assert http.head(private.path, headers=headers).status_code == 403
        queried = f"{private.path}?x-id=GetObject&b=2&a"
        answer = http.get(queried, headers=signed(private, queried))
        assert answer.content == private.content


def test_every_header_that_matters_has_to_be_signed(private):
    headers = signed(private, private.path)
    told = headers["authorization"].replace("x-amz-security-token", "x-amz-content-sha256")
    with private.service.http() as http:
        for text in (told, "AWS4-HMAC-SHA256", headers["authorization"].replace("/s3/", "/ec2/")):
            answer = http.get(private.path, headers={**headers, "authorization": text})
            assert refusal(answer) == (400, "AuthorizationHeaderMalformed")


def test_keys_open_no_other_dataset_and_do_not_tell_whether_there_is_one(private):
    told = set()
    with private.service.http() as http:
        for dataset in ("bar", "missing"):
            path = f"/{dataset}/data/{private.name}"
            told.add(http.get(path, headers=signed(private, path)).text)
    (text,) = told
    assert "<Code>AccessDenied</Code>" in text


def test_keys_of_another_dataset_with_a_right_signature_are_refused(private):
    other = private.service.node.vended_keys.make(private.other.id, private.owner.id)
    with pytest.raises(ClientError) as refused:
        boto(private, other).get_object(Bucket="foo", Key=f"data/{private.name}")
    assert refused.value.response["Error"]["Code"] == "AccessDenied"


def test_a_wrong_secret_is_refused(private):
    with pytest.raises(ClientError) as refused:
        boto(private, private.keys(), secret="x" * 43).get_object(
            Bucket="foo", Key=f"data/{private.name}"
        )
    assert refused.value.response["Error"]["Code"] == "AccessDenied"


@pytest.mark.parametrize("off_s", [-MAX_SKEW_S - 60, MAX_SKEW_S + 60])
def test_a_request_of_another_time_is_refused(private, off_s):
    client = boto(private, private.keys())
    asked = {"Bucket": "foo", "Key": f"data/{private.name}"}
    private.clock.off_s = off_s
    with pytest.raises(ClientError) as refused:
        client.get_object(**asked)
    assert refused.value.response["Error"]["Code"] == "RequestTimeTooSkewed"


def test_keys_expire(private):
    keys = private.keys()
    private.clock.off_s = TTL_S + 1
    with pytest.raises(ClientError) as refused:
        boto(private, keys).get_object(Bucket="foo", Key=f"data/{private.name}")
    assert refused.value.response["Error"]["Code"] == "ExpiredToken"


def test_what_is_missing_in_the_dataset_is_told(private):
    missing = "data/f1620" + "0" * 64
    for key in (missing, f"blocks/{private.chain.head}", "refs/head", "data", "tail"):
        with pytest.raises(ClientError) as refused:
            boto(private, private.keys()).get_object(Bucket="foo", Key=key)
        assert refused.value.response["Error"]["Code"] == "NoSuchKey"


def test_keys_read_and_do_nothing_else(private):
    client, key = boto(private, private.keys()), f"data/{private.name}"
    attempts = [
        lambda: client.delete_object(Bucket="foo", Key=key),
        lambda: client.create_multipart_upload(Bucket="foo", Key=key),
    ]
    for attempt in attempts:
        with pytest.raises(ClientError) as refused:
            attempt()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
        assert refused.value.response["Error"]["Code"] == "AccessDenied"
    with private.service.http() as http:
        for method in ("PUT", "POST", "PATCH"):
            headers = signed(private, private.path, method)
            answer = http.request(method, private.path, content=b"x", headers=headers)
            assert refusal(answer) == (403, "AccessDenied")
