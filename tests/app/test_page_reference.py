"""The page of the API is rendered once, and sent only to a client that does not have it."""

from __future__ import annotations

import gzip

import pytest
from service import serving

from odf_node.service.pages.guide import reference as documentation

HTML = {"accept": "text/html"}


@pytest.fixture
def client(tmp_path):
    documentation._reference.cache_clear()
    with serving(tmp_path) as service, service.http() as client:
        client.timeout = 120
        client.headers.update(HTML)
        yield client


def test_the_page_of_the_api_is_rendered_once(client, monkeypatch) -> None:
    made: list[str] = []
    rendered = documentation.rendered

    def counted(name: str, content: dict[str, object]) -> str:
        made.append(name)
        return rendered(name, content)

    monkeypatch.setattr(documentation, "rendered", counted)
    first, second = client.get("/docs"), client.get("/docs")
    assert first.text == second.text
    assert "<h1>API</h1>" in first.text
    assert made == ["operations"]


def test_a_client_that_has_the_page_of_the_api_gets_no_second_copy(client) -> None:
    first = client.get("/docs", headers={"accept-encoding": "identity"})
    again = client.get("/docs", headers={"if-none-match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    assert again.content == b""
    for name in ("etag", "cache-control", "content-security-policy"):
        assert again.headers[name] == first.headers[name]
    vary = [set(each.headers["vary"].lower().split(", ")) for each in (first, again)]
    assert vary[0] == vary[1]
    other = client.get("/docs", headers={"if-none-match": '"something else"'})
    assert (other.status_code, other.text) == (200, first.text)


def test_the_page_of_the_api_is_still_compressed_beside_its_tag(client) -> None:
    with client.stream("GET", "/docs", headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
        headers = answer.headers
    assert headers["content-encoding"] == "gzip"
    assert headers["etag"].startswith('W/"')
    assert gzip.decompress(raw).decode() == client.get("/docs").text


def test_each_visitor_gets_the_page_of_the_api_in_the_own_frame(tmp_path) -> None:
    with serving(tmp_path) as service, service.http() as client:
        client.timeout = 120
        client.headers.update(HTML)
        stranger = client.get("/docs")
        signed = client.post("/v/sign-in", data={"token": service.token(), "next": "/docs"})
        session = {"cookie": signed.headers["set-cookie"].partition(";")[0]}
        own = client.get("/docs", headers=session | {"if-none-match": stranger.headers["etag"]})
        assert own.status_code == 200
        assert "Sign out" in own.text
        assert "Sign out" not in stranger.text
