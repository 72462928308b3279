"""A package that is installed beside the node adds a feature, without a change in the node.

`odf_toy` stands for it: it lies in this folder with the metadata that an installer would write.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from nodes import RunningNode, served

HERE = Path(__file__).parent
PATHS = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {{kind: Csv, header: true, ddlSchema: [n INT]}}
      merge: {{kind: Append}}
"""

pytestmark = pytest.mark.e2e


def cli(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from odf_node.cli.main import main; main()", *words],
        env={**os.environ, "PYTHONPATH": PATHS, **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    data = tmp_path_factory.mktemp("toy") / "data"
    with served(data, "--workers", "1", PYTHONPATH=PATHS, ODF_TOY_WORD="Moin") as running:
        with running.http(running.token()) as http:
            for name in ("weather", "shy", "broken"):
                made = http.post(
                    "/datasets" if name == "shy" else "/datasets?visibility=public",
                    content=MANIFEST.format(name=name),
                    headers={"content-type": "application/yaml"},
                )
                assert made.status_code == 201, made.text
        yield running


@pytest.fixture
def http(node: RunningNode) -> Iterator[httpx.Client]:
    with node.http(node.token()) as client:
        yield client


def test_a_route_of_a_feature_has_its_settings_parts_and_runner(http):
    answer = http.get("/weather/greeting").json()
    assert answer == {"text": "Moin, weather!", "isRunning": True}


def test_the_rights_of_a_dataset_hold_for_routes_of_a_feature(node, http):
    assert httpx.get(f"{node.url}/shy/greeting").status_code == 404
    assert http.get("/absent/greeting").status_code == 404
    assert http.get("/weather/greeting?strange=1").status_code == 400


def test_an_error_of_a_feature_has_its_status(http):
    refused = http.get("/shy/greeting")
    assert refused.status_code == 418
    assert refused.json()["type"] == "urn:odf-node:problem:TooShy"


def test_a_worker_runs_jobs_of_a_feature(http):
    job = http.post("/weather/greeting").json()["job"]
    with http.stream("GET", f"/jobs/{job}/events") as events:
        assert [line for line in events.iter_lines() if line.startswith("event: ")]
    told = http.get(f"/jobs/{job}").json()
    assert (told["status"], told["result"]) == ("succeeded", {"greeted": "weather"})


def test_a_page_has_the_part_of_a_feature_and_goes_without_one_that_fails(http):
    html = {"accept": "text/html"}
    page = http.get("/weather", headers=html)
    assert "<p>Hello, <b>weather</b></p>" in page.text
    broken = http.get("/broken", headers=html)
    assert (broken.status_code, "Greeting" in broken.text) == (200, False)


def test_a_command_of_a_feature_runs_and_is_listed():
    assert cli("greet", "Ada").stdout == "Hello, Ada!\n"
    assert "Greet somebody." in cli("--help").stdout


def test_a_misspelt_setting_of_a_feature_ends_the_start(tmp_path):
    ended = cli("serve", "--data", str(tmp_path), "--port", "0", ODF_TOY_WROD="Moin")
    assert ended.returncode != 0
    assert "ODF_TOY_WORD" in ended.stderr


def test_a_feature_that_cannot_be_loaded_ends_the_start_with_its_name(tmp_path):
    info = tmp_path / "odf_lost-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odf-lost\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[odf_node.features]\nlost = odf_lost:FEATURE\n")
    paths = os.pathsep.join((str(tmp_path), PATHS))
    ended = cli("serve", "--data", str(tmp_path / "data"), "--port", "0", PYTHONPATH=paths)
    assert ended.returncode != 0
    assert "lost" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert cli("--version", PYTHONPATH=paths).returncode == 0


def test_without_it_nothing_knows_of_it():
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "from odf_storage.runtime.features import installed as f; print(f())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "()\n"
