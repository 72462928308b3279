"""The lines by which the page of a dataset says how to load it run as they are printed."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import javascripts
import pyarrow as pa
import pytest
from iceberg_clients import load_extensions
from service import serving
from table_made import TableMade

from odf_storage.stores.ports.values import Visibility

HTML = {"accept": "text/html"}
CITIES = pa.schema([("city", pa.string()), ("population", pa.int64())])


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("loading")) as service:
        for name, visibility in (
            ("cities", Visibility.PUBLIC),
            ("secrets", Visibility.PRIVATE),
        ):
            made = TableMade(service.node.stores, f"kamu/{name}", CITIES, visibility=visibility)
            made.add([{"city": f"c{n}", "population": n} for n in range(10)])
        yield service


@pytest.fixture(scope="module")
def token(node):
    return node.token()


@pytest.fixture(params=["cities", "secrets"])
def lines(request, node, token, monkeypatch):
    """What the page of a public dataset says, and of a private one, by tool."""
    monkeypatch.setenv("ODF_NODE_TOKEN", token)
    with node.http() as client:
        client.headers.update(HTML)
        client.post("/v/sign-in", data={"token": token})
        shown = client.get(f"/{request.param}").text
    found = re.findall(
        r"<summary>([^<]*)</summary>\n<pre[^>]*data-copy>(.*?)</pre>", shown, re.DOTALL
    )
    return {tool: html.unescape(text) for tool, text in found} | {"name": request.param}


@pytest.mark.parametrize("tool", ["pandas", "Polars", "odf-node in Python", "Iceberg: pyiceberg"])
def test_the_programs_in_python(lines, tool):
    names = {}
    exec(lines[tool], names)
    assert sorted(names[lines["name"]]["city"]) == [f"c{n}" for n in range(10)]


@pytest.mark.parametrize("tool", ["DuckDB", "Iceberg: DuckDB"])
def test_the_statements_of_duckdb(lines, tool):
    import duckdb

    with duckdb.connect() as db:
        load_extensions(db)
        text = lines[tool].replace("'…'", f"'{os.environ['ODF_NODE_TOKEN']}'")
        found = [db.execute(each).fetchall() for each in text.split(";") if each.strip()]
    assert len(found[-1]) == 10


@pytest.mark.parametrize("tool", ["curl", "odf-node, a copy"])
def test_the_commands_of_a_shell(lines, node, tool, tmp_path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines[tool]],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "ODF_NODE_URL": node.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "c9" in done.stdout


@pytest.mark.skipif(javascripts.NODE is None, reason=javascripts.NO_NODE)
def test_the_lines_in_typescript(lines, tmp_path):
    javascripts.built(tmp_path / "node_modules" / "odf-node")
    (tmp_path / "lines.mjs").write_text(lines["TypeScript"])
    done = subprocess.run(
        [javascripts.NODE, "lines.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "city: 'c9'" in done.stdout


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_the_lines_in_r(lines, tmp_path):
    shown = f"cat(sort({lines['name']}$city))"
    (tmp_path / "lines.R").write_text(f"{lines['R']}\n{shown}\n")
    done = subprocess.run(
        ["Rscript", "lines.R"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"c{n}" for n in range(10)]


def test_the_names_of_delta_sharing(lines, node, token):
    table = re.search(r"config\.share#(\S+?)'", lines["Delta Sharing"])[1]
    share, schema, name = table.split(".")
    with node.http(token) as client:
        path = f"/delta-sharing/shares/{share}/schemas/{schema}/tables/{name}/version"
        assert client.get(path).status_code == 200


def test_only_a_dataset_that_takes_a_token_says_so(lines):
    is_closed = lines["name"] == "secrets"
    tools = ("pandas", "Polars", "Spark", "R", "R with arrow", "curl", "TypeScript")
    for tool in (*tools, "Iceberg: pyiceberg"):
        assert ("ODF_NODE_TOKEN" in lines[tool]) is is_closed
