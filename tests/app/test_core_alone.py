"""The core alone: a node without any feature keeps, serves, shows, asks, copies and proves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import service
from processes import python_path
from tests.app.conftest import CORE
from tests.architecture.test_features import BORROWED, DOORS, SERVICE

from odf_node.service.features import features
from odf_storage.runtime.features import installed

OF_FEATURES = (
    "/delta-sharing/shares",
    "/iceberg/v1/config",
    "/odata/kamu/$metadata",
    "/ducklake/kamu.ducklake",
    "/log/checkpoint",
)
PROGRAM = """
import json, sys
from pathlib import Path

from odf_node.service import features

features.OWN = ()
features.features.cache_clear()

from click.testing import CliRunner
from odf_node.cli.main import main
from service import serving, ten_rows

HTML = {"accept": "text/html"}
folder, told = Path(sys.argv[1]), {}
with serving(folder / "node") as node, node.http() as client:
    node.keep(ten_rows())
    for path, headers in [
        ("/", HTML), ("/docs", HTML), ("/docs/manual", HTML), ("/foo", HTML), ("/v/sign-in", HTML),
        ("/foo?rows=1", HTML), ("/foo/refs/head", {}), ("/foo", {}), ("/foo/tail", {}),
        ("/foo/read?format=csv", {}), ("/system/metrics", {}), ("/openapi.json", {}),
    ]:
        told[path] = client.get(path, headers=headers).status_code
    answer = client.post("/query", json={"query": "select count(*) as n from foo"})
    told["rows"] = answer.json()["output"]["data"]
    copy = str(folder / "copy")
    for words in (["pull", f"{node.url}/foo", copy], ["verify", copy]):
        done = CliRunner().invoke(main, words)
        told[words[0]] = (done.exit_code, done.output[-300:] if done.exit_code else "")
    for path in sys.argv[2:]:
        told[path] = client.get(path).status_code
print(json.dumps({"told": told, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("core")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *OF_FEATURES],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": python_path(Path(service.__file__).parent)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_node_without_features_serves_shows_asks_copies_and_proves(played):
    told = played["told"]
    refused = {path for path in told if path.startswith("/") and told[path] != 200}
    assert refused == set(OF_FEATURES)
    assert {told[path] for path in OF_FEATURES} == {404}
    assert told["rows"] == [{"n": 10}]
    assert (told["pull"], told["verify"]) == ([0, ""], [0, ""])


def test_a_node_without_features_loads_none_of_their_modules(played):
    borrowed = {each.partition(" -> ")[2] for each in BORROWED}
    inside = tuple(f"{SERVICE}.{door}." for door in DOORS)
    loaded = {each for each in played["modules"] if each.startswith(inside)}
    assert loaded <= borrowed | {f"{SERVICE}.parts.doors"}


def test_files_of_the_core_are_there_and_their_nodes_have_no_feature():
    here = Path(__file__)
    assert here.name in CORE
    assert [name for name in CORE if not here.with_name(name).is_file()] == []
    assert features() == installed()
