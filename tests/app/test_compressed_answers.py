"""Texts are compressed for clients that take gzip; bytes, ranges and secrets are not."""

from __future__ import annotations

import gzip
import zlib

import httpx
import pytest
from service import serving, ten_rows

from odf_node.service.http.sending import takes_gzip

GZIP = {"accept-encoding": "gzip, deflate, br"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("packed") / "node", tenancy="single") as service:
        service.keep(ten_rows().add_rows(300), "kamu/city")
        yield service


def got(node, path, **headers):
    """Returns the response as it was sent: httpx unpacks only what is decoded."""
    asked = {"accept-encoding": "identity", "accept": "text/html, */*", **headers}
    with (
        httpx.Client(base_url=node.url, headers=asked, timeout=60) as client,
        client.stream("GET", path) as answer,
    ):
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("path", ["/", "/docs", "/v/style.css", "/city", "/city/read?format=csv"])
def test_texts_are_compressed_for_who_takes_it_and_are_the_same(node, path):
    plain, text = got(node, path)
    packed, sent = got(node, path, **GZIP)
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-length" not in packed.headers
    for answer in (plain, packed):
        assert "Accept-Encoding" in answer.headers.get_list("vary", split_commas=True)
    unpacked = gzip.decompress(sent)
    if path != "/city":  # pages say how old things are
        assert unpacked == text
    assert len(sent) < max(len(text), 500)


def test_short_answers_bytes_ranges_and_tagged_answers_are_sent_as_they_are(node):
    with node.http() as client:
        name = client.get("/city/files").json()["files"][0]["physicalHash"]
    for path, more in (
        ("/system/health", {}),
        ("/city/refs/head", {}),
        (f"/city/data/{name}", {}),
        (f"/city/data/{name}", {"range": "bytes=0-2000"}),
        ("/city/read?format=parquet", {}),
        ("/city/read?format=arrow", {}),
    ):
        answer, _ = got(node, path, **GZIP, **more)
        assert answer.status_code in (200, 206), path
        assert "content-encoding" not in answer.headers, path


def every_path(node) -> list[str]:
    """All addresses that the contract reads by GET without parameters, and those of pages."""
    contract = httpx.get(f"{node.url}/openapi.json", timeout=60).json()["paths"]
    read = [path for path, ways in contract.items() if "get" in ways]
    whole = [path.replace("{dataset}", "city") for path in read if "{account}" not in path]
    return [path for path in whole if "{" not in path and "events" not in path]


def test_on_every_route_only_whole_texts_without_a_strong_tag_are_compressed(node):
    pages = ["/?view=cards", "/city?columns=", "/city?rows=0", "/city?history=", "/v/login"]
    files = ["/v/card/city", "/v/icon", "/v/dataset.js", "/v/dataset.css", "/docs/manual"]
    paths = [*every_path(node), *pages, *files]
    assert len(paths) > 40
    packed = 0
    for path in paths:
        plain, text = got(node, path)
        answer, sent = got(node, path, **GZIP)
        assert answer.status_code == plain.status_code, path
        kind = plain.headers.get("content-type", "")
        is_packed = answer.headers.get("content-encoding") == "gzip"
        varies = "Accept-Encoding" in answer.headers.get_list("vary", split_commas=True)
        assert is_packed <= varies, path
        if not is_packed:
            continue
        packed += 1
        assert answer.status_code == 200, path
        assert not any(word in kind for word in ("parquet", "png", "arrow", "octet")), path
        assert answer.headers.get("etag", "W/").startswith("W/"), path
        assert not {"content-range", "content-length", "content-digest"} & set(answer.headers), path
        assert gzip.decompress(sent)[:20] == text[:20], path  # some tell the time further on
    assert packed > 10


def test_a_browser_with_a_cookie_gets_no_compressed_page(node):
    answer, _ = got(node, "/", cookie="a=b", **GZIP)
    assert "content-encoding" not in answer.headers


def test_rows_arrive_piece_by_piece(node):
    unpacker = zlib.decompressobj(31)
    with (
        httpx.Client(base_url=node.url, headers=GZIP, timeout=60) as client,
        client.stream("GET", "/city/read?format=ndjson") as answer,
    ):
        assert answer.headers["content-encoding"] == "gzip"
        first = next(answer.iter_raw())
    assert unpacker.decompress(first).startswith(b"{")


def test_compression_can_be_turned_off(tmp_path):
    with serving(tmp_path / "node", compress_from_bytes=0) as node:
        answer, _ = got(node, "/docs", **GZIP)
    assert "content-encoding" not in answer.headers
    assert "Accept-Encoding" not in answer.headers.get("vary", "")


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        (b"gzip", True),
        (b"br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        (b"*", True),
        (b"GZIP ; q=1", True),
        (b"gzip;q=0", False),
        (b"gzip;q=0.000, deflate", False),
        (b"identity", False),
        (b"xgzip", False),
        (b"", False),
    ],
)
def test_clients_say_whether_they_take_it(header, taken):
    assert takes_gzip(header) is taken
