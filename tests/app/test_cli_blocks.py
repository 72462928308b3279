"""`odf-node inspect`, `encode` and `hash`, on blocks and tables with known answers."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from odf_node.cli.main import main

VECTORS = Path(__file__).parents[1] / "vectors"
BLOCKS = json.loads((VECTORS / "blocks.json").read_text())["vectors"]
TABLES = [
    vector
    for vector in json.loads((VECTORS / "logical-hash.json").read_text())["vectors"]
    if vector["what"] == "logical"
]


def run(*words: object, stdin: bytes | None = None):
    return CliRunner().invoke(main, [str(word) for word in words], input=stdin)


@pytest.mark.parametrize("vector", BLOCKS, ids=lambda vector: vector["name"])
def test_a_block_is_shown_as_its_manifest_and_turned_back_into_its_bytes(vector, tmp_path):
    file = tmp_path / "block"
    file.write_bytes(bytes.fromhex(vector["bytes"]))

    shown = json.loads(run("inspect", file, "--json").stdout)
    assert shown["hash"] == vector["hash"]
    assert shown["size"] == len(vector["bytes"]) // 2
    assert shown["manifest"] == vector.get("canonical", vector["manifest"])

    text = run("inspect", file).stdout_bytes
    assert yaml.safe_load(text)["kind"] == "MetadataBlock"
    encoded = run("encode", "-", stdin=text)
    assert encoded.exit_code == 0, encoded.stderr
    assert encoded.stdout_bytes.hex() == vector["bytes"]


@pytest.mark.parametrize("vector", BLOCKS[:3], ids=lambda vector: vector["name"])
def test_a_manifest_in_json_gives_the_bytes_and_the_hash(vector):
    done = run("encode", "-", "--json", stdin=json.dumps(vector["manifest"]).encode())
    written = json.loads(done.stdout)
    assert (written["hash"], written["bytes"]) == (vector["hash"], vector["bytes"])


def test_the_version_of_a_block_can_be_chosen():
    vector = next(v for v in BLOCKS if v["manifest"]["version"] == 3)
    text = json.dumps(vector["manifest"]).encode()
    older = json.loads(run("encode", "--version", 2, "-", "--json", stdin=text).stdout)
    assert older["version"] == 2


def test_several_documents_need_a_folder(tmp_path):
    file = tmp_path / "blocks.yaml"
    file.write_text("---\n".join(json.dumps(vector["manifest"]) + "\n" for vector in BLOCKS[:2]))
    assert run("encode", file).exit_code == 2
    done = run("encode", file, "-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.stderr
    assert [line["hash"] for line in json.loads(done.stdout)] == [v["hash"] for v in BLOCKS[:2]]
    for vector in BLOCKS[:2]:
        assert (tmp_path / "out" / vector["hash"]).read_bytes().hex() == vector["bytes"]


def test_several_blocks_are_shown_as_several_documents(tmp_path):
    files = []
    for vector in BLOCKS[:2]:
        files.append(tmp_path / vector["name"])
        files[-1].write_bytes(bytes.fromhex(vector["bytes"]))
    assert len(list(yaml.safe_load_all(run("inspect", *files).stdout))) == 2
    assert [b["hash"] for b in json.loads(run("inspect", *files, "--json").stdout)] == [
        vector["hash"] for vector in BLOCKS[:2]
    ]


def test_bytes_that_are_no_block_fail_with_one_sentence(tmp_path):
    file = tmp_path / "block"
    file.write_bytes(b"not a block")
    done = run("inspect", file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not a metadata block" in done.stderr
    problem = json.loads(run("inspect", file, "--json").stderr)
    assert problem["type"] == "urn:odf-node:problem:MalformedBlock"
    assert problem["exitCode"] == 1


def test_a_manifest_with_an_unknown_field_names_the_path(tmp_path):
    vector = json.loads(json.dumps(BLOCKS[0]["manifest"]))
    vector["content"]["event"]["surprise"] = 1
    done = run("encode", "-", stdin=json.dumps(vector).encode())
    assert done.exit_code == 2
    assert "surprise" in done.stderr


def test_any_file_has_a_physical_hash(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"prev")
    expected = "f1620" + hashlib.sha3_256(b"prev").hexdigest()
    assert run("hash", file).stdout == expected + "\n"
    assert run("hash", "-", stdin=b"prev").stdout == expected + "\n"
    assert json.loads(run("hash", file, "--json").stdout)["hash"] == expected


@pytest.mark.parametrize("vector", TABLES[:6], ids=lambda vector: vector["name"])
def test_the_rows_of_an_arrow_stream_have_a_logical_hash(vector, tmp_path):
    file = tmp_path / "rows.arrows"
    file.write_bytes(base64.b64decode(vector["ipc"]))
    assert run("hash", file, "--logical").stdout.strip() == vector["hash"]


def test_parquet_and_both_arrow_forms_have_the_same_logical_hash(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"offset": pa.array([0, 1], pa.int64()), "city": ["A", None]})
    pq.write_table(table, tmp_path / "t.parquet")
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.new_stream(tmp_path / "t.arrows", table.schema) as writer:
        writer.write_table(table)
    names = ("t.parquet", "t.arrow", "t.arrows")
    hashes = {run("hash", tmp_path / name, "--logical").stdout for name in names}
    assert len(hashes) == 1
    assert hashes.pop().startswith("f9680c00120")


def test_a_file_that_is_no_table_has_no_logical_hash(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"a,b\n1,2\n")
    assert run("hash", file, "--logical").exit_code == 2


def test_a_file_that_cannot_be_opened_is_wrong_usage(tmp_path):
    for name in ("/does/not/exist", tmp_path):
        assert run("hash", name).exit_code == 2
        assert run("inspect", name).exit_code == 2


def test_several_files_are_hashed_a_line_each(tmp_path):
    for name in ("prev", "b"):
        (tmp_path / name).write_bytes(name.encode())
    files = [tmp_path / "prev", tmp_path / "b"]
    lines = run("hash", *files).stdout.splitlines()
    assert [line.split("  ") for line in lines] == [
        ["f1620" + hashlib.sha3_256(file.name.encode()).hexdigest(), str(file)] for file in files
    ]
    assert [shown["file"] for shown in json.loads(run("hash", *files, "--json").stdout)] == [
        str(file) for file in files
    ]


def test_several_documents_are_encoded_as_a_list_in_json():
    documents = "\n---\n".join(json.dumps(vector["manifest"]) for vector in BLOCKS[:2])
    shown = json.loads(run("encode", "-", "--json", stdin=documents.encode()).stdout)
    assert [line["bytes"] for line in shown] == [vector["bytes"] for vector in BLOCKS[:2]]
