"""Uploads that begin and never end are so many, and no more."""

from __future__ import annotations

import pytest
from service import serving, ten_rows

from protocol.multihash import Multihash


@pytest.fixture
def node(tmp_path):
    with serving(tmp_path, max_begun_uploads=3) as service:
        service.keep(ten_rows(), "kamu/foo")
        service.keep(ten_rows(), "kamu/other")
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
        assert refused.json()["setting"] == "ODF_NODE_MAX_BEGUN_UPLOADS"
        assert begin(client, "other", contents[3]).status_code == 204
        assert begin(client, "foo", contents[0], offset=1).status_code == 204  # goes on
        whole = len(contents[4])
        assert begin(client, "foo", contents[4], size=whole).status_code == 204
        assert begin(client, "foo", contents[0], offset=2, size=whole).status_code == 204
        assert begin(client, "foo", contents[3]).status_code == 204
