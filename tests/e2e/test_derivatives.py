"""A pipeline on a real node: rows posted, derivatives follow, also once workers died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from nodes import RunningNode, odf

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
PATIENCE_S = 240
ENGINES = {"postgres, bucket": "spark"}
"""By pair; DataFusion on the others. Engines know nothing of where a node keeps its state, and the
Spark of a worker that took the place of a killed one costs more than all the rest."""

ROOT = {
    "kind": "AddPushSource",
    "sourceName": "default",
    "read": {
        "kind": "NdJson",
        "schema": {
            "fields": [
                {"name": "event_time", "type": "Timestamp"},
                {"name": "city", "type": "String"},
                {"name": "n", "type": "Int64"},
            ]
        },
    },
    "merge": {"kind": "Append"},
}


def created(api: httpx.Client, name: str, kind: str, event: dict[str, Any]) -> httpx.Response:
    content = {"name": name, "kind": kind, "metadata": [event]}
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    return api.post("/datasets", json=manifest, params={"visibility": "public"})


def transform(engine: str, query: str, *inputs: str) -> dict[str, Any]:
    given = [{"datasetRef": name, "alias": name} for name in inputs]
    sql = {"kind": "Sql", "engine": engine, "query": query}
    return {"kind": "SetTransform", "inputs": given, "transform": sql}


def post(api: httpx.Client, *numbers: int) -> None:
    rows = [{"event_time": f"2024-01-01T00:{n:02}:00Z", "city": "A", "n": n} for n in numbers]
    body = "".join(json.dumps(row) + "\n" for row in rows)
    answer = api.post(
        "/cities/ingest", content=body, headers={"content-type": "application/x-ndjson"}
    )
    assert answer.status_code in (200, 202), answer.text


def until(api: httpx.Client, name: str, records: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = api.get(f"/{name}").json()
        status = (found["derivation"] or {"status": "up-to-date"})["status"]
        if found["records"] == records and status == "up-to-date":
            return
        assert status != "paused", found["derivation"]
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def numbers(api: httpx.Client, name: str) -> list[int]:
    return [row["n"] for row in api.get(f"/{name}/tail").json()["data"]]


def workers_of(node: RunningNode) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(node.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [int(line.split()[0]) for line in found.splitlines() if "odf_workers.main" in line]


def test_derivatives_follow_and_survive_the_end_of_their_worker(
    node: RunningNode, pair: str, tmp_path: Path
) -> None:
    token, engine = node.token(), ENGINES.get(pair, "datafusion")
    with node.http(token) as api:
        assert created(api, "cities", "Root", ROOT).status_code == 201
        post(api, 1, 2)
        until(api, "cities", 2)
        tens = "select op, event_time, city, n * 10 as n from cities"
        event = transform(engine, tens, "cities")
        assert created(api, "tens", "Derivative", event).status_code == 201
        event = transform(engine, "select nothing from cities", "cities")
        wrong = created(api, "wrong", "Derivative", event)
        assert wrong.status_code == 400
        assert wrong.json()["type"].endswith("InvalidQuery")
        until(api, "tens", 2)
        both = "select event_time, n from cities union all select event_time, n from tens"
        event = transform(engine, both, "cities", "tens")
        assert created(api, "both", "Derivative", event).status_code == 201
        until(api, "both", 4)
        for n in range(3, 9):
            post(api, n)
        for pid in workers_of(node):
            os.killpg(pid, signal.SIGKILL)
        post(api, 9)
        until(api, "tens", 9)
        until(api, "both", 18)
        assert numbers(api, "tens") == [n * 10 for n in range(1, 10)]
        assert sorted(numbers(api, "both")) == sorted([*range(1, 10), *range(10, 100, 10)])
        found = api.get("/cities/dependencies").json()["downstream"]
        assert [(item["alias"], item["depth"]) for item in found] == [("tens", 1), ("both", 2)]
    odf("pull", f"odf+{node.url}/both", tmp_path / "both")
    odf("verify", tmp_path / "both")
