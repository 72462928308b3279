"""A node with one worker, as it comes: a reader's query that never ends holds nobody's posts."""

from __future__ import annotations

import time

import pytest
from nodes import RunningNode, odf, served
from servers import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: alice/steps
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {kind: NdJson, schema: {fields: [{name: day, type: Date}, {name: steps, type: Int32}]}}
      merge: {kind: Append}
    - {kind: SetVocab, eventTimeColumn: day}
"""
TABLE = '"alice/steps"'
ENDLESS = "select sum(a.steps * b.steps * c.steps * d.steps) as n from " + ", ".join(
    f"{TABLE} {name}" for name in "abcd"
)
"""A reader's, over 2,000 rows: 1.6 * 10^13 combinations."""


def made(node: RunningNode, tmp_path) -> str:
    """A public dataset with rows, posted by its owner, whose token is returned."""
    alice = node.token("alice")
    manifest = tmp_path / "steps.yaml"
    manifest.write_text(MANIFEST)
    odf(
        *("dataset", "create", manifest, "--node", node.url, "--visibility", "public"),
        ODF_NODE_TOKEN=alice,
    )
    rows = "".join(f'{{"day": "2024-05-01", "steps": {n}}}\n' for n in range(2_000))
    with node.http(alice) as api:
        posted(api, rows)
    return alice


def posted(api, rows: str) -> None:
    answer = api.post("/alice/steps/ingest", content=rows)
    assert answer.status_code == 200, answer.text


def test_a_query_of_a_reader_that_never_ends_holds_back_no_post(tmp_path):
    with served(tmp_path / "node", "--tenancy", "multi", ODF_WORKER_WARM_UP="false") as node:
        alice = made(node, tmp_path)
        reader = node.token("bob", "--scope", "read")
        with node.http(reader) as bob, node.http(alice) as api:
            asked = bob.post("/query", json={"query": ENDLESS, "queryDialect": "SqlSpark"})
            job = f"/jobs/{asked.json()['job']}"
            wait_until(lambda: bob.get(job).json()["status"] == "running", "the query")
            began = time.monotonic()
            for n in range(3):
                posted(api, f'{{"day": "2024-05-02", "steps": {n}}}\n')
            assert time.monotonic() - began < 120  # the query never ends
            assert bob.get(job).json()["status"] == "running"
            assert bob.delete(job).status_code in (403, 404)  # a token for reading ends nothing
        with node.http(node.token("bob")) as bob:
            assert bob.delete(job).status_code == 200
