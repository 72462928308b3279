"""What named a block of a history that was really compacted is told so, and how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from service import Service, serving
from upkeep_parts import dataset_of, grown

from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.stores.ports.values import Visibility
from odf_workers.jobs.upkeep.compact import run_compaction

QUERY = "select count(*) as n from many"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(
        tmp_path_factory.mktemp("node") / "data", turn_wait_s=60, signing_key="7b" * 32
    ) as service:
        yield service


@pytest.fixture(scope="module")
def answers(service: Service, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An answer of before with its inputs, a block of then, and the head of now."""
    stores = service.node.stores
    made, blocks = grown(stores, "kamu/many", slices=5)
    stores.set_visibility(made.id, Visibility.PUBLIC)
    with service.http() as client:
        asked = {"query": QUERY, "include": ["Input"]}
        before = client.post("/query", json=asked).json()
        proven = client.post("/query", json={"query": QUERY, "include": ["Proof"]}).json()
    scratch: Path = tmp_path_factory.mktemp("scratch")
    done = run_compaction(dataset_of(stores, made), CompactPayload(), stores, scratch, attempts=3)
    assert done.outcome == "updated"
    return {"before": before, "proven": proven, "block": str(blocks[-2].hash), "head": done.head}


def test_a_query_of_then_is_404_and_says_why_and_what_to_do(service, answers):
    with service.http() as client:
        pinned = answers["before"]["input"]["datasets"]
        gone = client.post("/query", json={"query": QUERY, "datasets": pinned})
        assert gone.status_code == 404
        assert "compacted or reset" in gone.json()["message"]
        assert "asked for anew" in gone.json()["message"]
        again = client.post("/query", json={"query": QUERY, "include": ["Input"]}).json()
    assert again["output"] == answers["before"]["output"]
    assert again["input"]["datasets"][0]["blockHash"] == answers["head"]


def test_an_answer_of_then_cannot_be_verified_any_more(service, answers):
    with service.http() as client:
        body = {
            name: answers["proven"][name] for name in ("input", "subQueries", "commitment", "proof")
        }
        found = client.post("/verify", json=body)
    assert found.json()["error"]["kind"] == "VerificationFailed::DatasetBlockNotFound"


def test_rows_as_of_a_block_of_then_are_404(service, answers):
    with service.http() as client:
        gone = client.get("/many/read", params={"asAt": answers["block"]})
    assert gone.status_code == 404, gone.text
    assert "compacted or reset" in gone.json()["message"]


def test_a_stream_from_a_block_of_then_tells_of_the_reset_once_and_goes_on(service, answers):
    headers = {"last-event-id": answers["block"]}
    with service.http() as client, client.stream("GET", "/many/events", headers=headers) as stream:
        assert stream.status_code == 200
        told: dict[str, str] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            told[name] = value
            if name == "data":
                break
    assert told["event"] == "reset"
    assert told["id"] == answers["head"]
    assert json.loads(told["data"])["block"] == answers["head"]
