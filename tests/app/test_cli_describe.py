"""`odf-node describe` and bare events of `dataset append`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from service import serving, ten_rows

from odf_node.cli.main import main


@pytest.fixture
def foo(tmp_path):
    with serving(tmp_path / "node", tenancy="single") as service:
        service.keep(ten_rows(), "kamu/foo")
        yield service


@pytest.fixture
def run(foo, tmp_path):
    def ran(*words, code=0, **more):
        env = {
            "ODF_NODE_CONFIG": str(tmp_path / "config"),
            "ODF_NODE_TOKEN": foo.token(),
            "ODF_NODE_URL": foo.url,
        }
        done = CliRunner().invoke(main, [str(word) for word in words], env=env, **more)
        assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return ran


def texts(foo):
    with foo.http() as http:
        asked = {"include": "info,license,attachments"}
        return http.get("/foo/metadata", params=asked).json()["output"]


def test_texts_are_set_one_by_one_and_the_others_stay(foo, run, tmp_path):
    (tmp_path / "about.md").write_text("# Foo\n")
    run("describe", "foo", "--description", "Ten rows", "--keyword", "a", "--keyword", "b")
    run("describe", "foo", "--license", "CC-BY-4.0", "--readme", tmp_path / "about.md")
    run("describe", "foo", "--keyword", "c")
    found = texts(foo)
    assert found["info"] == {"description": "Ten rows", "keywords": ["c"]}
    assert found["license"]["spdxId"] == "CC-BY-4.0"
    assert found["attachments"]["attachments"]["items"] == [
        {"path": "README.md", "content": "# Foo\n"}
    ]
    run("describe", "foo", "--readme", "-", input="new")
    items = texts(foo)["attachments"]["attachments"]["items"]
    assert [one["content"] for one in items] == ["new"]


def columns(foo):
    with foo.http() as http:
        asked = {"include": "schema", "schemaFormat": "OdfJson"}
        fields = http.get("/foo/metadata", params=asked).json()["output"]["schema"]["fields"]
    return {field["name"]: field.get("extra") for field in fields}


def test_columns_are_described_one_by_one_and_the_others_stay(foo, run):
    run("describe", "foo", "--column", "city=Where = there", "--unit", "population=people")
    run("describe", "foo", "--unit", "city=none")
    assert columns(foo)["city"] == {
        "odf-node/description": "Where = there",
        "odf-node/unit": "none",
    }
    assert columns(foo)["population"] == {"odf-node/unit": "people"}
    run("describe", "foo", "--column", "city=", "--unit", "city=")
    assert columns(foo)["city"] is None
    before = columns(foo)
    run("describe", "foo", "--column", "nowhere=x", code=2)
    run("describe", "foo", "--column", "city", code=2)
    run("describe", "foo", "--unit", "city=" + "x" * 51, code=2)
    assert columns(foo) == before


def test_bad_texts_and_dry_runs_append_nothing(foo, run, tmp_path):
    before = texts(foo)
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe")
    run("describe", "foo", code=2)
    run("describe", "foo", "--license-name", "x", code=2)
    run("describe", "foo", "--description", "x", "--readme", tmp_path / "bad.md", code=2)
    assert "SetInfo" in run("describe", "foo", "--description", "x", "--dry-run")
    assert texts(foo) == before


def test_an_event_is_appended_without_its_envelope(foo, run):
    run("dataset", "append", "foo", "-", input="kind: SetInfo\ndescription: bare\n")
    assert texts(foo)["info"]["description"] == "bare"
    run("dataset", "append", "foo", "-", input="kind: SetInfo\ndescriptoin: x\n", code=2)
    run("dataset", "append", "foo", "-", input="kind: NoEvent\ndescription: x\n", code=2)


@pytest.mark.parametrize(
    "same",
    [
        ["--description", "a b c"],
        ["--keyword", "x"],
        ["--license", "CC-BY-4.0"],
        ["--column", "city=A place", "--unit", "city="],
        ["--unit", "city="],
    ],
)
def test_what_is_said_already_is_not_said_again(foo, run, same):
    texts = ["--description", "a b c", "--keyword", "x", "--license", "CC-BY-4.0"]
    run("describe", "foo", *texts, "--column", "city=A place")
    before = run("log", f"{foo.url}/foo")
    done = run("describe", "foo", *same)
    assert done.startswith("nothing changed; the head is ")
    assert run("log", f"{foo.url}/foo") == before
