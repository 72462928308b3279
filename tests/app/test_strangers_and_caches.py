"""What caches of others may keep, and what pages of other sites may read, by the node's policy."""

from __future__ import annotations

import pytest
from refusals import refusing
from service import serving, ten_rows

from odf_node.service.settings import load_settings
from odf_node.service.trust.log import LogKeeper
from odf_storage.stores.ports.values import Visibility

CONTROL, ORIGIN = "cache-control", "access-control-allow-origin"
EVIL = {"Origin": "https://evil.example"}


def paths_of(client, name):
    """Every address of a GET that the contract lists, with values that lead to something."""
    chain = ten_rows()
    block = str(chain.blocks[-1].hash)
    data = next(one.event.new_data for one in map(_read, chain.blocks) if _has_data(one))
    values = {"dataset": name, "ref": "head", "hash": block, "block": block}
    listed = client.get("/openapi.json").json()["paths"]
    for path, methods in listed.items():
        if "get" in methods and "events" not in path:
            yield path.format_map(_Values(values))
    yield f"/{name}/data/{data.physical_hash}"


class _Values(dict):
    def __missing__(self, name):
        return "x"


def _read(hashed):
    return hashed.block


def _has_data(block):
    return getattr(block.event, "new_data", None) is not None


@pytest.mark.parametrize("is_open", [True, False])
def test_only_an_open_node_lets_shared_caches_keep_what_it_answers(tmp_path, is_open):
    with serving(tmp_path, tenancy="single", allow_anonymous=is_open) as service:
        service.keep(ten_rows(), "kamu/foo", Visibility.PUBLIC)
        with service.http(service.token()) as client:
            answers = [client.get(path) for path in paths_of(client, "foo")]
    kept = [one.headers[CONTROL] for one in answers if CONTROL in one.headers]
    assert any("immutable" in one for one in kept)
    assert any(one.startswith("public") for one in kept) is is_open


@pytest.mark.parametrize("is_open", [True, False])
def test_the_log_of_a_closed_node_is_for_its_accounts_and_their_caches(
    tmp_path, monkeypatch, is_open
):
    monkeypatch.setattr(LogKeeper, "file", lambda self, tile: b"hashes")
    with serving(tmp_path, tenancy="single", allow_anonymous=is_open) as service:
        service.keep(ten_rows(), "kamu/foo", Visibility.PUBLIC)
        with service.http() as stranger, service.http(service.token()) as client:
            paths = ("/log/checkpoint", "/log/tile/0/000", "/log/tile/entries/000")
            got = {stranger.get(path).status_code for path in paths}
            kept = client.get("/log/tile/0/000").headers[CONTROL]
    assert got <= ({200, 404} if is_open else {401})
    assert kept.startswith("public" if is_open else "private")


def test_where_everybody_reads_private_rows_no_page_of_another_site_does(tmp_path):
    with serving(tmp_path, tenancy="single", anonymous_reads="all") as service, service.http() as c:
        service.keep(ten_rows(), "kamu/foo", Visibility.PRIVATE)
        assert c.get("/foo/tail").status_code == 200
        assert ORIGIN not in c.get("/foo/tail", headers=EVIL).headers
        asked = {**EVIL, "access-control-request-method": "GET"}
        assert ORIGIN not in c.options("/foo/tail", headers=asked).headers
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example"):
            answer = c.get("/foo/tail", headers={"Host": host})
            assert (answer.status_code, "PUBLIC_URL" in answer.text) == (403, True)
        for host in ("localhost", "node", "[::1]:8080", "10.1.2.3", "a.localhost:80"):
            assert c.get("/foo/tail", headers={"Host": host}).status_code == 200
    url = {"public_url": "https://data.example/odf/"}
    with serving(tmp_path, tenancy="single", anonymous_reads="all", **url) as s, s.http() as c:
        assert c.get("/foo/tail", headers={"Host": "data.example"}).status_code == 200
        assert c.get("/foo/tail", headers={"Host": "evil.example"}).status_code == 403


def test_where_private_is_private_every_page_reads_what_is_public(tmp_path):
    with serving(tmp_path, tenancy="single") as service, service.http() as client:
        service.keep(ten_rows(), "kamu/foo")
        answer = client.get("/foo/tail", headers={**EVIL, "Host": "any.example"})
        assert (answer.status_code, answer.headers[ORIGIN]) == (200, "*")


@pytest.mark.parametrize("limit", ["query_processes", "readers", "max_bodies", "flight_calls"])
def test_a_node_where_one_caller_may_take_all_does_not_start_unless_told_so(limit):
    with refusing("InvalidSetting", match="one caller could hold all"):
        load_settings(**{limit: 4, "share": 0.8})
    with refusing("InvalidSetting", match=f"ODF_NODE_{limit.upper()}=1"):
        load_settings(**{limit: 1})
    allowed = load_settings(**{limit: 4, "share": 1})
    assert allowed.share_of(getattr(allowed, limit)) == 4
    assert load_settings(**{limit: 4}).share_of(4) == 2


def test_an_address_with_a_slash_too_many_leads_to_the_public_url(tmp_path):
    with serving(tmp_path, tenancy="single", public_url="https://data.example/odf") as service:
        service.keep(ten_rows(), "kamu/foo")
        with service.http() as client:
            answer = client.get("/foo/metadata/?format=x", headers={"Host": "inside:8080"})
            assert answer.status_code == 307
            assert answer.headers["location"] == "https://data.example/odf/foo/metadata?format=x"
            assert "location" not in client.post("/foo/ingest/", content=b"{}").headers
