"""What a route does not declare is refused before anything is done; peers may add to it."""

from __future__ import annotations

import re

import pytest
from service import seeded, ten_rows

from odf_node.service.http.addresses import contract
from odf_node.service.setting_groups.words import Tenancy
from odf_protocol.codec.manifests import load_event

TRANSFERS = re.compile(r"/\{dataset\}/(refs|blocks|data|checkpoints|iceberg|pull|push)\b.*")
PEERS = re.compile(
    r"/(info|graphql|accounts/(me|\{name\})|datasets/\{id\}|platform/(login|token/.*)|v/login|assets/.*)"
)
CLIENTS = re.compile(r"/(delta-sharing|iceberg|odata)/.*|/mcp|/oai")
"""Their clients send what newer versions of the protocols know, OData has custom options, and
OAI-PMH refuses arguments by an answer of its own."""
SOURCE = """
kind: MetadataEvent
version: 1
content:
  kind: AddPushSource
  sourceName: cities
  read: {kind: Csv, header: true, schema: {fields: [{name: city, type: String}]}}
  merge: {kind: Append}
"""


def own_operations():
    for path, item in contract(Tenancy.SINGLE)["paths"].items():
        if any(known.fullmatch(path) for known in (TRANSFERS, PEERS, CLIENTS)):
            continue
        for method in sorted({"get", "post", "put", "patch", "delete"} & set(item)):
            yield pytest.param(method, path, id=f"{method} {path}")


@pytest.mark.parametrize(("method", "path"), list(own_operations()))
def test_a_parameter_nobody_declared_is_named_with_those_that_are(single, method, path):
    address = re.sub(r"\{\w+\}", "x", path)
    with single.http(single.token()) as http:
        answer = http.request(method, address, params={"dryrun": "true"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["parameter"], "dryrun" in problem["known"]) == ("dryrun", False)


def test_a_misspelt_dry_run_commits_nothing(single):
    chain = seeded()
    chain.add(load_event(SOURCE))
    single.keep(chain, "kamu/misspelt")
    jobs = single.node.stores.jobs
    before = jobs.page(limit=9)
    with single.http(single.token()) as http:
        answer = http.post("/misspelt/ingest?dryrun=true", content=b"city\nA\n")
    assert answer.status_code == 400
    assert "dryRun" in answer.json()["detail"].partition("known here: ")[2].split(", ")
    assert jobs.page(limit=9) == before


def test_peers_may_add_to_the_query_what_they_like(single):
    single.keep(ten_rows(), "kamu/read-by-peers")
    with single.http() as http:
        for path in ("/read-by-peers/refs/head", "/info"):
            assert http.get(path, params={"whatever": "1"}).status_code == 200


def test_a_health_check_of_another_kind_is_refused(single):
    with single.http() as http:
        assert http.get("/system/health?type=bogus").status_code == 400


@pytest.mark.parametrize("action", ["compact", "reset", "set-watermark", "verify", "refresh"])
def test_what_is_asked_for_in_a_body_that_nobody_reads_is_not_done(single, action):
    kept = single.keep(ten_rows(), f"kamu/told-{action}")
    head = single.node.stores.refs.head(kept.id)
    pieces = iter([b'{"dryRun":', b"true}"])  # of a length that is not told
    with single.http(single.token()) as http:
        answers = [http.post(f"/told-{action}/{action}", json={"dryRun": True})]
        answers.append(http.post(f"/told-{action}/{action}", content=pieces))
    for answer in answers:
        assert (answer.status_code, "a body means nothing here" in answer.text) == (400, True)
        assert answer.json()["known"]
    assert single.node.stores.refs.head(kept.id) == head
    assert not single.node.stores.jobs.page(limit=9, dataset=kept.id)
