"""Our client with nodes of another make: the transfer protocol, or one sentence about the node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chains import FolderDataset, make_dataset
from click.testing import CliRunner, Result
from static_files import answering, send

import odf_node
from odf_node.cli.main import main
from odf_protocol.commitments import Commitment, did_key, hash_of, key_pair, sign
from odf_protocol.errors import NodeError

INFO = {"appVersion": "0.265.0", "gitSha": "0" * 40}
SCHEMA = {"fields": [{"name": "a"}]}
KEY = key_pair(b"k" * 32)


@pytest.fixture
def ours(tmp_path: Path) -> FolderDataset:
    return make_dataset(tmp_path / "ours", rows=[3, 2])


@pytest.fixture
def node(ours: FolderDataset) -> Iterator[str]:
    """A node of another make: transfer, ingest and queries, and 404 for anything else."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        file = ours.folder / path.removeprefix("/kamu/foo/")
        length = int(handler.headers.get("content-length") or 0)
        body = handler.rfile.read(length)
        if path == "/system/info":
            send(handler, 200, json.dumps(INFO).encode(), Content_Type="application/json")
        elif path == "/query":
            send(handler, 200, proven(json.loads(body)), Content_Type="application/json")
        elif handler.command == "GET" and path.startswith("/kamu/foo/") and file.is_file():
            send(handler, 200, file.read_bytes())
        else:
            send(handler, 404)

    with answering(answer) as served:
        yield served.url


def proven(asked: Any) -> bytes:
    """An answer as another node signs it."""
    asked = {**asked, "datasets": [], "queryDialect": "SqlDataFusion", "skip": 0}
    output = {"data": [["Ä"]], "dataFormat": "JsonAoA", "schema": SCHEMA}
    commitment = Commitment(
        input_hash=str(hash_of(asked)),
        output_hash=str(hash_of(output)),
        sub_queries_hash=str(hash_of([])),
    )
    parts = {"input": asked, "output": output, "subQueries": [], "commitment": commitment}
    return msgspec.json.encode({**parts, "proof": sign(commitment, KEY)})


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_a_dataset_is_opened_by_the_transfer_protocol(node: str):
    for where in (f"{node}kamu/foo", f"odf+{node}kamu/foo"):
        assert odf_node.open(where).arrow().num_rows == 5
    with pytest.raises(NodeError):
        odf_node.open(f"{node}kamu/nobody").arrow()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["dataset", "list", "--node", "{node}"], "datasets"),
        (["dataset", "show", "{node}kamu/foo"], "descriptions of datasets"),
        (["lineage", "{node}kamu/foo"], "lineage"),
        (["lookup", "{node}kamu/foo", "city=a"], "lookup"),
        (["compact", "{node}kamu/foo", "--yes"], "compact"),
    ],
)
def test_what_the_node_does_not_offer_is_said_in_one_sentence(node: str, words, what):
    found = run(*[word.format(node=node) for word in words])
    assert found.exit_code != 0
    assert f"is of another make and does not offer {what}" in found.output


def test_an_answer_is_checked_by_the_key_in_its_proof_which_is_named(node: str):
    found = run("sql", "select 1", "--node", node, "--verify")
    assert found.exit_code == 0, found.output
    assert did_key(KEY.public) in found.stderr
    assert "--key" in found.stderr
    found = run("sql", "select 1", "--node", node, "--verify", "--key", did_key(KEY.public))
    assert (found.exit_code, found.stderr) == (0, "1 row(s)\n")
    other = did_key(key_pair(b"o" * 32).public)
    assert run("sql", "select 1", "--node", node, "--verify", "--key", other).exit_code == 6
