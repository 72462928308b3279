"""Uploads that begin and never end are so many, and no more."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from service import serving, ten_rows

from odf_protocol.multihash import Multihash


@contextmanager
def shared(folder, **settings):
    """A node with two datasets of one account."""
    with serving(folder, **settings) as service:
        service.keep(ten_rows(), "kamu/foo")
        service.keep(ten_rows(), "kamu/other")
        yield service


@pytest.fixture
def node(tmp_path):
    with shared(tmp_path, max_begun_uploads=3) as service:
        yield service


def begin(client, dataset: str, content: bytes, *, size: int = 1, offset: int = 0):
    part = content[offset : offset + size]
    told = {"upload-offset": str(offset), "upload-length": str(len(content))}
    return client.patch(f"/{dataset}/data/{Multihash.of(content)}", content=part, headers=told)


def test_begun_uploads_of_a_dataset_are_bounded_and_can_be_ended(node):
    contents = [f"content {number}".encode() for number in range(5)]
    with node.http(node.token()) as client:
        for content in contents[:3]:
            assert begin(client, "foo", content).status_code == 204
        refused = begin(client, "foo", contents[3])
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "3600")
        assert refused.json()["limit"] == 3
        assert begin(client, "other", contents[3]).status_code == 204
        assert begin(client, "foo", contents[0], offset=1).status_code == 204  # goes on
        whole = len(contents[4])
        assert begin(client, "foo", contents[4], size=whole).status_code == 204
        assert begin(client, "foo", contents[0], offset=2, size=whole).status_code == 204
        assert begin(client, "foo", contents[3]).status_code == 204


def contents_of(size: int, number: int) -> list[bytes]:
    return [bytes([each]) * size for each in range(number)]


def test_begun_uploads_of_an_account_are_bounded_over_all_its_datasets(tmp_path):
    contents = contents_of(10, 4)
    with (
        shared(tmp_path, max_begun_uploads_account=2) as service,
        service.http(service.token()) as c,
    ):
        assert begin(c, "foo", contents[0]).status_code == 204
        assert begin(c, "other", contents[1]).status_code == 204
        refused = begin(c, "foo", contents[2])
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "3600")
        assert refused.json()["limit"] == 2
        assert "PUT" in refused.json()["message"]
        assert begin(c, "other", contents[2]).status_code == 429
        assert begin(c, "other", contents[1], offset=1, size=9).status_code == 204  # it ends
        assert begin(c, "foo", contents[2]).status_code == 204


def test_begun_uploads_of_an_account_are_bounded_by_the_bytes_they_announce(tmp_path):
    contents = contents_of(400, 4)
    with (
        shared(tmp_path, max_begun_bytes_account=1000) as service,
        service.http(service.token()) as c,
    ):
        assert begin(c, "foo", contents[0]).status_code == 204
        assert begin(c, "other", contents[1]).status_code == 204
        refused = begin(c, "foo", contents[2])
        assert refused.status_code == 429
        assert refused.json()["setting"] == "ODF_NODE_MAX_BEGUN_BYTES_ACCOUNT"
        assert refused.headers["ratelimit-policy"] == '"TooManyBegun";q=1000;qu="content-bytes"'
        grown = {"upload-offset": "1", "upload-length": "700"}  # announced anew, and larger
        address = f"/foo/data/{Multihash.of(contents[0])}"
        assert c.patch(address, content=b"x", headers=grown).status_code == 429
        assert begin(c, "foo", contents[0], offset=1, size=399).status_code == 204
        assert begin(c, "foo", contents[2]).status_code == 204


def test_what_comes_whole_beyond_the_bound_is_taken_and_nothing_of_it_stays_in_part(tmp_path):
    first, second, third = contents_of(10, 3)
    with (
        shared(tmp_path, max_begun_uploads_account=1) as service,
        service.http(service.token()) as c,
    ):
        assert begin(c, "foo", first).status_code == 204
        assert begin(c, "foo", second, size=10).status_code == 204
        assert c.get(f"/foo/data/{Multihash.of(second)}").content == second
        wrong = c.patch(
            f"/foo/data/{Multihash.of(third)}",
            content=second,
            headers={"upload-offset": "0", "upload-length": "10"},
        )
        assert wrong.status_code == 400
        parts = list(tmp_path.rglob(".pending-upload-*"))
        assert [path.name for path in parts] == [f".pending-upload-{Multihash.of(first)}"]


def test_a_part_that_belongs_nowhere_begins_nothing(tmp_path):
    with shared(tmp_path) as service, service.http(service.token()) as c:
        assert begin(c, "foo", b"0123456789", offset=5).status_code == 409
        assert not list(tmp_path.rglob(".pending-upload-*"))
