"""A dataset that polls the web, on a real node and worker: refresh, not modified, refused."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest
from nodes import RunningNode
from web_server import Answer, Asked, web_server

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

ROWS = b"City,Population\nA,1\nB,2\n"
QUERY = 'select "City" as city, "Population" * 10 as population from input'


def _manifest(name: str, url: str) -> dict[str, object]:
    source = {
        "kind": "SetPollingSource",
        "fetch": {
            "kind": "Url",
            "url": url,
            "headers": [{"name": "X-Key", "value": "${{ env.SOURCE_KEY }}"}],
        },
        "prepare": [{"kind": "Decompress", "format": "Gzip"}],
        "read": {"kind": "Csv", "header": True, "inferSchema": True},
        "preprocess": {"kind": "Sql", "engine": "datafusion", "query": QUERY},
        "merge": {"kind": "Snapshot", "primaryKey": ["city"]},
    }
    content = {"name": name, "kind": "Root", "metadata": [source]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def _answer(asked: Asked) -> Answer:
    if asked.headers.get("If-None-Match") == '"v1"':
        return Answer(304)
    return Answer(200, {"ETag": '"v1"'}, gzip.compress(ROWS))


def test_a_source_on_the_web_is_polled_by_request(node: RunningNode) -> None:
    token = node.token()
    with web_server(_answer) as web, node.http(token) as api:
        url = f"http://127.0.0.1:{web.port}/rows.csv.gz"
        assert api.post("/datasets", json=_manifest("towns", url)).status_code == 201
        receipt = api.post("/towns/refresh").json()
        assert (receipt["outcome"], receipt["rowsAdded"]) == ("updated", 2), receipt
        assert web.asked[0].headers["X-Key"] == "k3y"
        tail = api.get("/towns/tail").json()
        assert [(row["city"], row["population"]) for row in tail["data"]] == [("A", 10), ("B", 20)]
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from odf_node.cli.main import main; main()",
                "refresh",
                f"{str(api.base_url).rstrip('/')}/towns",
                "--token",
                token,
                "--json",
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["outcome"] == "up-to-date"
        assert len(web.asked) == 2


def test_addresses_inside_are_refused_with_a_reason(node: RunningNode) -> None:
    with node.http(node.token()) as api:
        manifest = _manifest("inside", "http://127.0.0.2:1/")
        assert api.post("/datasets", json=manifest).status_code == 201
        refused = api.post("/inside/refresh")
        assert refused.status_code == 400
        assert "public network" in refused.json()["message"]
