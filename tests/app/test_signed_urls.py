"""URLs that carry the right to one file: who has one reads that file, for a while, and no other."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from service import SCHEMA, Service, seeded, serving, ten_rows

from odf_node.service.accounts.accounts import ensure_account
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.stores.ports.values import ObjectKind, Visibility

START = Instant.parse("2050-02-01T00:00:00Z")
TTL_S = 600


class Clock:
    now = START

    def __call__(self) -> Instant:
        return self.now


class Private:
    """A private dataset on a node that serves nobody without a token."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self.service, self.clock, self.chain = service, clock, ten_rows()
        self.entry = service.keep(self.chain, "kamu/foo", Visibility.PRIVATE)
        self.other = seeded().add(SetDataSchema(schema=SCHEMA)).add_rows(7)
        self.others = [name for _, name in self.other.objects]
        self.other.objects |= self.chain.objects
        service.keep(self.other, "kamu/bar", Visibility.PRIVATE)
        self.owner = ensure_account(service.node.stores.accounts, "kamu", os.urandom)
        kind, self.name = next(key for key in self.chain.objects if key[0] is ObjectKind.DATA)
        self.content = self.chain.objects[kind, self.name]
        self.path = f"/foo/data/{self.name}"

    def signed(self) -> str:
        urls = self.service.node.signed_urls
        signer = urls.signer("data", self.entry.id, urls.expiry(), self.owner.id)
        return signer(str(self.name))


@pytest.fixture
def private(tmp_path: Any) -> Iterator[Private]:
    clock = Clock()
    given = {"allow_anonymous": False, "transfer_url_ttl_s": TTL_S}
    with serving(tmp_path / "node", clock=clock, **given) as service:
        yield Private(service, clock)


@pytest.fixture
def client(private: Private) -> Iterator[httpx.Client]:
    with private.service.http() as client:
        yield client


def test_a_signed_url_is_read_without_a_token_in_whole_and_in_part(private, client):
    url = f"{private.path}?{private.signed()}"
    assert client.get(private.path).status_code == 401
    assert client.get(url).content == private.content
    head = client.head(url)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(private.content)))
    part = client.get(url, headers={"range": "bytes=-8"})
    assert (part.status_code, part.content) == (206, private.content[-8:])


def test_a_signature_opens_its_own_file_only(private, client):
    signed = private.signed()
    elsewhere = [f"/{name}/data/{other}" for name in ("foo", "bar") for other in private.others]
    elsewhere += [
        f"/bar/data/{private.name}",
        f"/foo/checkpoints/{private.name}",
        f"/foo/blocks/{private.chain.head}",
        f"/missing/data/{private.name}",
    ]
    for path in elsewhere:
        answer = client.get(f"{path}?{signed}")
        assert (answer.status_code, answer.content) == (404, b""), path


def test_a_signature_with_any_changed_byte_opens_nothing(private, client):
    raw = base64.urlsafe_b64decode(private.signed().removeprefix("sp=") + "==")
    for at in range(len(raw)):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        sp = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        assert client.get(private.path, params={"sp": sp}).status_code == 404
    for bad in ("", "x", "é", "=" * 8, "a" * 5000):
        assert client.get(private.path, params={"sp": bad}).status_code == 404
    twice = f"{private.path}?{private.signed()}&{private.signed()}"
    assert client.get(twice).status_code == 404


def test_an_expired_url_says_so_and_only_a_true_one_does(private, client):
    url = f"{private.path}?{private.signed()}"
    private.clock.now = Instant(START.ns + (TTL_S - 1) * NANOS)
    assert client.get(url).status_code == 200
    private.clock.now = Instant(START.ns + TTL_S * NANOS)
    answer = client.get(url)
    assert answer.status_code == 403
    assert "expired" in answer.json()["message"]
    assert client.get(f"/bar/data/{private.name}?{private.signed()}").status_code == 404


def test_a_signature_writes_nothing_and_opens_no_list(private, client):
    signed = private.signed()
    assert client.put(f"{private.path}?{signed}", content=b"x").status_code == 401
    for path in ("/foo/refs/head", "/foo/read", "/foo/files", "/foo"):
        assert client.get(f"{path}?{signed}").status_code == 401
