"""`odf-node sql`: a node and folders are asked alike, and what a node answers is checked."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from refusals import refusing
from service import SCHEMA, Chain, described, seeded, serving

from odf_node.cli.main import main
from odf_node.cli.reads.sql_sources import check
from odf_protocol.commitments import did_key, key_pair
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKind

QUERY = 'select "offset", city from city order by "offset"'


@pytest.fixture(scope="module")
def city() -> Chain:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    return chain.add_rows(3).add_rows(2)


@pytest.fixture(scope="module")
def node(city: Chain, tmp_path_factory: Any) -> Any:
    data = tmp_path_factory.mktemp("sql") / "node"
    with serving(data, signing_key="7b" * 32) as service:
        service.keep(city, "kamu/city")
        yield service


@pytest.fixture(scope="module")
def folder(city: Chain, tmp_path_factory: Any) -> Path:
    objects = FolderObjects(tmp_path_factory.mktemp("folders") / "city")
    for block in city.blocks:
        objects.put(ObjectKind.BLOCK, block.hash, [block.raw])
    for (kind, name), content in city.objects.items():
        objects.put(kind, name, [content])
    objects.write_ref("head", city.head)
    return objects.root


@pytest.fixture(params=["node", "folder"])
def where(request: Any, node: Any, folder: Path) -> list[str]:
    return ["--node", node.url] if request.param == "node" else [str(folder)]


def run(*words: str) -> Result:
    found = CliRunner().invoke(main, ["sql", *words])
    assert found.exit_code == 0, found.output
    return found


def test_a_table_has_a_column_for_each_name_and_a_line_for_each_row(where):
    lines = run(QUERY, *where).stdout.splitlines()
    assert lines[0].split() == ["offset", "city"]
    assert [line.split() for line in lines[2:]] == [[str(n), f"c{n}"] for n in range(5)]


def test_every_format_has_the_same_rows(where, tmp_path):
    def got(form: str) -> bytes:
        out = tmp_path / form
        run(QUERY, *where, "--format", form, "-o", str(out))
        return out.read_bytes()

    rows = json.loads(got("json"))
    assert rows == [{"offset": n, "city": f"c{n}"} for n in range(5)]
    assert [json.loads(line) for line in got("ndjson").splitlines()] == rows
    assert pq.read_table(io.BytesIO(got("parquet"))).to_pylist() == rows
    assert pa.ipc.open_stream(got("arrow")).read_all().to_pylist() == rows
    assert got("csv").splitlines()[1] == b"0,c0"


def test_as_of_a_block_there_are_the_rows_of_then(where, city):
    then = str(next(block.hash for block in city.blocks if block.sequence_number == 3))
    document = json.loads(run(QUERY, *where, "--at", then, "--json").stdout)
    assert len(document["output"]["data"]) == 3
    assert document["input"]["datasets"][0]["blockHash"] == then


def test_a_limit_is_one_of_rows(where):
    assert len(run(QUERY, *where, "--limit", "2").stdout.splitlines()) == 4


MANY = "select a.city from " + ", ".join(f"city {name}" for name in "abc")


def test_what_is_left_out_of_an_answer_is_told(where):
    found = run(MANY, *where)
    assert len(found.stdout.splitlines()) == 102
    assert found.stderr == "the first 100 row(s); for more: --limit N\n"
    assert run(f"{MANY} limit 100", *where).stderr == "100 row(s)\n"
    assert run(MANY, *where, "--limit", "101").stderr == "101 row(s)\n"
    found = run(MANY, *where, "--json")
    assert len(json.loads(found.stdout)["output"]["data"]) == 100
    assert "for more" in found.stderr


def test_a_folder_may_be_named_by_a_relative_path(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert run(QUERY, "city", "--format", "csv").stdout.splitlines()[1:] == [
        f"{n},c{n}" for n in range(5)
    ]


def test_what_is_wrong_with_a_query_is_said(where):
    found = CliRunner().invoke(main, ["sql", "select offzet from city", *where])
    assert found.exit_code == 2
    assert "No field named offzet" in found.output


def test_the_answer_of_a_node_is_checked(node):
    document = json.loads(run(QUERY, "--node", node.url, "--verify", "--json").stdout)
    keys = [{"id": document["proof"]["verificationMethod"]}]
    check(document, keys)
    with refusing("AnswerRefuted", match="none of the node's"):
        check(document, [{"id": did_key(key_pair(b"1" * 32).public)}])
    document["output"]["data"][0]["city"] = "c9"
    with refusing("AnswerRefuted", match="output"):
        check(document, keys)


def test_numbers_and_letters_of_an_answer_are_checked_as_they_were_sent(node):
    words = ["select 'Ä' as a, 1e16 as b, arrow_cast(1.0, 'Float32') / 3 as c"]
    found = run(*words, "--node", node.url, "--verify", "--json")
    assert json.loads(found.stdout)["output"]["data"] == [{"a": "Ä", "b": 1e16, "c": 0.33333334}]
    assert found.stderr == ""


def test_a_key_that_is_named_has_to_have_signed(node):
    signer = did_key(key_pair(b"\x7b" * 32).public)
    run(QUERY, "--node", node.url, "--verify", "--key", signer)
    other = did_key(key_pair(b"1" * 32).public)
    words = ["sql", QUERY, "--node", node.url, "--verify", "--key", other]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 6
    assert signer in found.output


def test_a_damaged_file_of_a_folder_is_named(folder, tmp_path):
    import shutil

    copy = tmp_path / "city"
    shutil.copytree(folder, copy)
    some = next((copy / "data").iterdir())
    some.chmod(0o644)
    some.write_bytes(some.read_bytes()[:-1] + b"\x00")
    assert CliRunner().invoke(main, ["sql", QUERY, str(copy)]).exit_code == 6


@pytest.mark.parametrize("words", [[], ["--verify", "."], [".", "--node", "http://x"]])
def test_wrong_usage_is_told(words):
    assert CliRunner().invoke(main, ["sql", QUERY, *words]).exit_code == 2
