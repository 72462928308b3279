"""The commands that speak to a node, against the real service."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from chains import files_of, make_dataset
from click.testing import CliRunner
from static_files import answering, send, static_files
from threaded_node import ThreadedNode, threaded_node

from odf_node.cli.main import main

MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetInfo
      description: |
        Two lines,
        and an escape: \x1b[31m
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory) -> Iterator[ThreadedNode]:
    with threaded_node(tmp_path_factory.mktemp("node") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def token(node) -> str:
    return node.token()


def run(*words: object, code: int = 0, token: str | None = None, stdin: bytes | None = None):
    env = {"ODF_NODE_TOKEN": token} if token else {}
    done = CliRunner().invoke(main, [str(word) for word in words], env=env, input=stdin)
    assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
    return done


def test_a_dataset_is_created_listed_shown_and_logged(node, token, tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("\x1b", "\\e").format(name="made"))
    words = ("dataset", "create", manifest, "--node", node.url, "--visibility", "public")
    created = json.loads(run(*words, "--json", token=token).stdout)
    assert created["alias"] == "made"
    assert run(*words, token=token, code=5).stderr.startswith("odf-node: ")
    assert run(*words, code=4).stderr
    problem = json.loads(run(*words, "--json", token=token, code=5).stderr)
    assert problem["type"] == "urn:odf-node:problem:RequestConflict"
    assert problem["reported"] == "urn:odf-node:problem:AliasTaken"

    listed = json.loads(run("dataset", "list", "--node", node.url, "--json").stdout)
    assert "made" in [entry["alias"] for entry in listed]
    assert "made" in run("dataset", "list", "--node", f"odf+{node.url}").stdout

    for where in ([f"{node.url}/made"], ["made", "--node", node.url], [f"odf+{node.url}/made"]):
        shown = json.loads(run("dataset", "show", *where, "--json").stdout)
        assert shown["id"] == created["id"]
    assert "head:" in run("dataset", "show", f"{node.url}/made").stdout
    run("dataset", "show", f"{node.url}/unmade", code=3)

    logged = json.loads(run("log", f"{node.url}/made", "--json").stdout)
    assert [line["event"] for line in logged] == ["SetInfo", "Seed"]
    assert logged[0]["hash"] == created["head"]
    text = run("log", f"odf+{node.url}/made").stdout
    assert "\x1b" not in text
    assert "Two lines, and" in text
    assert len(json.loads(run("log", f"{node.url}/made", "-n", 1, "--json").stdout)) == 1


def test_a_manifest_that_is_none_never_reaches_the_node(tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text("kind: Nonsense")
    run("dataset", "create", manifest, "--node", "http://127.0.0.1:1", code=2)


def test_push_pull_verify_and_log_of_real_data(node, token, tmp_path):
    ours = make_dataset(tmp_path / "ours", rows=[10, 5], checkpoint=b"state", key=3)
    smart = f"odf+{node.url}/cities"
    assert (
        "updated" in run("push", ours.folder, smart, "--visibility", "public", token=token).stdout
    )
    again = json.loads(run("push", ours.folder, smart, "--json", token=token).stdout)
    assert again["outcome"] == "up-to-date"

    pulled = json.loads(run("pull", smart, tmp_path / "copy", "--json").stdout)
    assert (pulled["outcome"], pulled["oldHead"], pulled["newHead"], pulled["blocks"]) == (
        "updated",
        None,
        str(ours.head),
        4,
    )
    assert files_of(tmp_path / "copy") == ours.files()
    assert "up to date" in run("pull", f"{node.url}/cities", tmp_path / "copy").stdout

    for where in (tmp_path / "copy", f"{node.url}/cities", smart):
        report = json.loads(run("verify", where, "--json").stdout)
        assert (report["ok"], report["blocks"], report["records"]) == (True, 4, 15)
    assert run("verify", tmp_path / "copy").stdout.startswith("valid: 4 block(s)")
    assert "5 row(s), offsets 10 to 14" in run("log", tmp_path / "copy").stdout

    ours.add_info("more")
    assert run("push", ours.folder, smart, code=4).stderr
    run("pull", ours.folder, tmp_path / "copy")
    run("pull", smart, tmp_path / "copy", code=5)
    run("pull", f"{node.url}/towns", tmp_path / "towns", code=3)


def test_damage_is_found_and_named(tmp_path):
    ours = make_dataset(tmp_path / "ours", rows=[10], key=4)
    path = next((ours.folder / "data").iterdir())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    assert path.name in run("verify", ours.folder, code=6).stdout
    report = json.loads(run("verify", ours.folder, "--json", code=6).stdout)
    assert report["ok"] is False
    assert report["problems"][0]["path"] == f"data/{path.name}"
    assert report["problems"][0]["sequenceNumber"] == 2
    with static_files(ours.folder) as server:
        assert path.name in run("verify", server.url, code=6).stdout
        run("pull", server.url, tmp_path / "copy", code=6)
    assert not (tmp_path / "copy" / "refs").exists()


RECEIPT = {
    "outcome": "updated",
    "prevHead": "f1620aa",
    "head": "f1620bb",
    "rowsRead": 3,
    "rowsAdded": 2,
    "rowsKnown": 1,
    "offsetStart": 0,
    "offsetEnd": 1,
}


def test_a_file_is_posted_with_its_media_type_and_the_receipt_is_shown(tmp_path):
    bodies = []

    def take(handler) -> None:
        length = int(handler.headers["content-length"] or 0)
        bodies.append(handler.rfile.read(length))
        send(handler, 200, json.dumps(RECEIPT).encode())

    rows = tmp_path / "rows.ndjson"
    rows.write_text('{"a": 1}\n')
    with answering(take) as server:
        words = ("--source-name", "s 1", "--event-time", "2024-05-01T00:00:00+02:00")
        done = run("ingest", rows, f"{server.url}acc/set", *words, "--json", token="secret")
        assert json.loads(done.stdout) == RECEIPT
        method, path, headers = server.requests[-1]
        lower = {key.lower(): value for key, value in headers.items()}
        assert (method, path) == ("POST", "/acc/set/ingest?sourceName=s+1")
        assert lower["content-type"] == "application/x-ndjson"
        assert lower["odf-event-time"] == "2024-04-30T22:00:00Z"
        assert lower["authorization"] == "Bearer secret"
        assert bodies == [b'{"a": 1}\n']

        text = run("ingest", rows, f"odf+{server.url}set").stdout
        assert "3 row(s) read, 2 added, 1 already known, offsets 0 to 1" in text
        run("ingest", rows, f"{server.url}set", "--media-type", "text/csv")
        assert server.requests[-1][2]["content-type"] == "text/csv"


def test_a_batch_that_takes_long_is_waited_for(tmp_path):
    looks = []

    def take(handler) -> None:
        if handler.command == "POST":
            handler.rfile.read(int(handler.headers["content-length"]))
            url = f"http://{handler.headers['host']}/jobs/1"
            send(handler, 202, json.dumps({"job": "1", "status": "waiting", "url": url}).encode())
            return
        looks.append(handler.path)
        job = {"id": "1", "status": "running"}
        if len(looks) > 1:
            job = {"id": "1", "status": "succeeded", "result": RECEIPT}
        send(handler, 200, json.dumps(job).encode())

    rows = tmp_path / "rows.csv"
    rows.write_text("a\n1\n")
    with answering(take) as server:
        assert json.loads(run("ingest", rows, f"{server.url}x", "--json").stdout) == RECEIPT
    assert looks == ["/jobs/1", "/jobs/1"]


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 4), (403, 4), (404, 3), (409, 5), (415, 2), (500, 1)]
)
def test_what_a_node_refuses_has_its_exit_code(tmp_path, status, code):
    problem = {"type": "urn:x", "title": "t", "status": status, "detail": "bad row", "line": 7}

    def refuse(handler) -> None:
        handler.rfile.read(int(handler.headers["content-length"]))
        send(handler, status, json.dumps(problem).encode())

    rows = tmp_path / "rows.csv"
    rows.write_text("a\n1\n")
    with answering(refuse) as server:
        done = run("ingest", rows, f"{server.url}x", "--json", code=code, token="known")
        shown = json.loads(done.stderr)
        assert (shown["detail"], shown["line"], shown["status"]) == ("bad row", 7, status)


def test_a_file_whose_format_nobody_can_tell_is_wrong_usage(tmp_path):
    file = tmp_path / "rows.xyz"
    file.write_text("")
    run("ingest", file, "http://127.0.0.1:1/x", code=2)
    run("ingest", "absent.csv", "http://127.0.0.1:1/x", code=2)
    run("ingest", file, tmp_path, "--media-type", "text/csv", code=2)


def test_standard_input_goes_out_as_the_format_of_the_source(tmp_path):
    seen = []

    def take(handler) -> None:
        seen.append({key.lower() for key in handler.headers})
        while (size := int(handler.rfile.readline(), 16)) > 0:
            seen.append(handler.rfile.read(size))
            handler.rfile.readline()
        handler.rfile.readline()
        send(handler, 200)

    with answering(take) as server:
        run("ingest", "-", f"{server.url}x", stdin=b"a,b\n1,2\n")
    assert "content-type" not in seen[0]
    assert seen[1:] == [b"a,b\n1,2\n"]


def test_what_is_not_there_is_told_in_words(node, token, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a\n1\n")
    absent = run("ingest", rows, f"{node.url}/absent", token=token, code=3)
    assert "no dataset has this name" in absent.stderr
    page = run("dataset", "show", node.url, token=token, code=1)
    assert "is a page, not a dataset" in page.stderr
    run("dataset", "show", "somewhere", token=token, code=2)


def test_a_mistyped_dataset_is_answered_with_the_nearest_names(node, token, tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("\x1b", "\\e").format(name="weather"))
    words = ("--node", node.url, "--visibility", "public")
    run("dataset", "create", manifest, *words, token=token)
    for command in (("dataset", "show"), ("dataset", "dependencies"), ("lineage",)):
        said = run(*command, f"{node.url}/wether", code=3).stderr
        assert f"{node.url}/wether: no dataset has this name" in said
        assert "did you mean weather?" in said


def test_what_is_no_node_is_named_when_a_dataset_shall_be_made_there(node, token, tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("\x1b", "\\e").format(name="nowhere"))
    said = run("dataset", "create", manifest, "--node", f"{node.url}/anna", token=token, code=3)
    assert "name the node itself, not an account or a dataset" in said.stderr


def test_who_sends_no_token_is_told_how_to(node, token, tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("\x1b", "\\e").format(name="guarded"))
    words = ("--node", node.url, "--visibility", "public")
    run("dataset", "create", manifest, *words, token=token)
    rows = tmp_path / "rows.csv"
    rows.write_text("a\n1\n")
    said = run("ingest", rows, f"{node.url}/guarded", code=4).stderr
    assert "set ODF_NODE_TOKEN or pass --token" in said


def test_the_list_tells_rows_size_and_age_and_ids_when_asked(node, token, tmp_path):
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("\x1b", "\\e").format(name="listed"))
    words = ("--node", node.url, "--visibility", "public")
    run("dataset", "create", manifest, *words, token=token)
    line = next(
        line
        for line in run("dataset", "list", "--node", node.url).stdout.splitlines()
        if line.startswith("listed ")
    )
    assert "0 B" in line
    assert "did:odf" not in line
    assert "did:odf:" in run("dataset", "list", "--node", node.url, "-v").stdout


def test_a_reader_that_has_enough_makes_no_command_fail():
    told = "import sys; from odf_node.cli.shell.output import report_error as told; "
    told += "sys.exit(told(BrokenPipeError(), as_json=False))"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0
