"""Locations as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusing

from odf_node.client.nodes.remotes import Location, Transfer, node_base


@pytest.mark.scenario("F02")
@pytest.mark.parametrize(
    ("text", "transfer", "base"),
    [
        ("odf+http://host:8080/acc/foo", Transfer.SMART, "http://host:8080/acc/foo/"),
        ("odf+https://host/foo/", Transfer.SMART, "https://host/foo/"),
        ("http://host/foo", Transfer.SIMPLE, "http://host/foo/"),
        ("HTTPS://host/", Transfer.SIMPLE, "https://host/"),
        ("http://host", Transfer.SIMPLE, "http://host/"),
        ("http://[::1]:80/x", Transfer.SIMPLE, "http://[::1]:80/x/"),
        ("http://http.example/my-http/", Transfer.SIMPLE, "http://http.example/my-http/"),
    ],
)
def test_the_scheme_alone_picks_the_protocol(text, transfer, base):
    location = Location.parse(text)
    assert (location.transfer, location.base, location.path) == (transfer, base, None)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("weather", "weather"),
        ("./a b/c", "a b/c"),
        ("/tmp/x", "/tmp/x"),
        ("file:///tmp/a%20b/", "/tmp/a b"),
        ("file://localhost/tmp/x", "/tmp/x"),
    ],
)
def test_anything_else_is_a_folder(text, path):
    assert Location.parse(text).path == Path(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ipfs://cid/",
        "odf+file:///tmp/x",
        "ftp://host/",
        "http:///foo",
        "http://user:secret@host/foo",
        "http://host/foo?x=1",
        "http://host/foo#x",
        "http://host/a b",
        "http://host:port/",
        "http://[::1/",
        "file://host/tmp/x",
        "a\0b",
        "http://host/" + "x" * 5000,
    ],
)
def test_what_cannot_be_reached_is_refused(text):
    with refusing("UnsupportedUrl"):
        Location.parse(text)


def test_a_websocket_is_secure_when_the_location_is():
    assert Location.parse("odf+https://h/a").websocket_base == "wss://h/a/"
    assert Location.parse("odf+http://h:1/a").websocket_base == "ws://h:1/a/"


def test_a_location_reads_as_it_was_written():
    assert str(Location.parse("odf+http://h/a")) == "odf+http://h/a/"
    assert str(Location.parse("http://h/a/")) == "http://h/a/"


def test_a_node_is_named_with_or_without_the_odf_prefix():
    assert node_base("odf+http://h:8080") == node_base("http://h:8080/") == "http://h:8080/"
    with refusing("UnsupportedUrl"):
        node_base("weather")
