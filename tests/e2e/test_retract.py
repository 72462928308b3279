"""Rows are taken back by command and from Python, whatever the merge strategy, on a real worker."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest
from nodes import odf, served
from refusals import refusing

import odf_node
from odf_node.client.nodes.node_api import RequestRefused
from odf_node.public.publish import standing

pytestmark = pytest.mark.e2e

ROWS = pa.table(
    {
        "at": pa.array([1_700_000_000_000 + 1000 * n for n in range(4)], pa.timestamp("ms", "UTC")),
        "id": [1, 2, 3, 4],
        "v": [0.1, 2.5e300, None, 4.0],
        "tags": [["a"], [], None, ["b", "c"]],
    }
)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    data = tmp_path_factory.mktemp("retract") / "node"
    with served(data, ODF_WORKER_WARM_UP="false") as running:
        yield running


@pytest.fixture
def env(node, monkeypatch):
    found = {"ODF_NODE_TOKEN": node.token(), "ODF_NODE_URL": node.url}
    for name, text in found.items():
        monkeypatch.setenv(name, text)
    return found


@pytest.fixture(params=["append", "ledger", "upsert", "snapshot"])
def data(request, node, env):
    url = f"{node.url}/{request.param}"
    key = None if request.param == "append" else ["id"]
    odf_node.publish(ROWS, url, key=key, merge=request.param, event_time="at")
    return odf_node.open(url)


def ids(data, **selection):
    return data.arrow(columns=["id"], **selection)["id"].to_pylist()


def test_rows_are_taken_back_with_their_times_whatever_the_strategy(data):
    tried = data.retract(key={"id": 2}, dry_run=True)
    assert (tried.rows_retracted, ids(data)) == (1, [1, 2, 3, 4])
    assert data.retract(key={"id": 2}).rows_retracted == 1
    assert data.retract(offsets=[2, 3], filter="id:gt:2").rows_retracted == 2
    assert ids(data) == [1]
    every = data.arrow(changelog=True)
    assert every["at"].to_pylist()[4:] == ROWS["at"].to_pylist()[1:]
    assert every["op"].to_pylist() == [0, 0, 0, 0, 1, 1, 1]
    assert data.verify().ok
    with refusing("NoSuchRows"):
        data.retract(key={"id": 2})
    with refusing("TooManyRows"):
        data.retract(filter="id:gt:0", most=0)
    with refusing("NoRowsNamed"):
        data.retract()


def test_of_equal_rows_without_a_key_one_is_taken_back_by_its_offset(node, env):
    odf_node.publish(pa.concat_tables([ROWS, ROWS]), f"{node.url}/equal", event_time="at")
    data = odf_node.open(f"{node.url}/equal")
    by_id = dict(zip(*(data.arrow()[name].to_pylist() for name in ("id", "offset")), strict=True))
    assert data.retract(offsets=[by_id[1], by_id[2]]).rows_retracted == 2
    assert sorted(ids(data)) == [1, 2, 3, 3, 4, 4]
    block = data.block
    with pytest.raises(RequestRefused, match=r"only one of equal rows can be taken back; .* reset"):
        data.retract(key={"id": 4})
    assert data.block == block


def test_a_row_that_was_taken_back_meanwhile_is_refused_and_nothing_changes(node, env):
    odf_node.publish(ROWS, f"{node.url}/meanwhile", event_time="at")
    data = odf_node.open(f"{node.url}/meanwhile")
    found = standing(data._place, filters=["id:gt:2"])
    data.retract(key={"id": 3})
    block = data.block
    with pytest.raises(RequestRefused, match="row 1 takes back a row that does not stand"):
        found.take_back()
    assert data.block == block


def test_on_the_page_a_row_is_seen_before_it_is_taken_back_and_a_file_adds_more(node, env):
    odf_node.publish(ROWS, f"{node.url}/paged", key=["id"], event_time="at")
    data = odf_node.open(f"{node.url}/paged")
    by_id = dict(zip(*(data.arrow()[name].to_pylist() for name in ("id", "offset")), strict=True))
    with node.http() as visitor:
        visitor.cookies.set("odf_session", env["ODF_NODE_TOKEN"])
        why, end = "Look again", time.monotonic() + 90  # a worker answers once it has a turn
        while "Look again" in why and time.monotonic() < end:
            page = visitor.get(f"/paged?why={by_id[4]}", headers={"accept": "text/html"})
            why = page.text
        assert "Take this row back" in why
        asked = {"do": "retract", "offset": str(by_id[4])}
        assert "Take it back" in visitor.post("/v/manage/paged", data=asked).text
        assert ids(data) == [1, 2, 3, 4]
        done = visitor.post("/v/manage/paged", data=asked | {"sure": "1"})
        assert (done.status_code, ids(data)) == (200, [1, 2, 3])
        assert "rows retracted 1" in done.text
        rows = data.arrow(changelog=True)
        assert rows["at"][4] == ROWS["at"][3]
        assert rows["tags"][4].as_py() == ["b", "c"]
        more = ("more.ndjson", b'{"at":"2026-01-01T00:00:00Z","id":9,"v":0.5,"tags":[]}\n')
        sent = visitor.post("/v/rows/paged", files={"file": more})
        assert (sent.status_code, ids(data)) == (200, [1, 2, 3, 9])
        wrong = visitor.post("/v/rows/paged", files={"file": ("bad.ndjson", b'{"id":"x"}\n')})
        assert wrong.status_code == 400
        assert "Nothing was added" in wrong.text
    assert ids(data) == [1, 2, 3, 9]


def test_the_command_shows_the_rows_asks_and_is_undone_by_a_changelog(node, env, tmp_path):
    odf_node.publish(ROWS, f"{node.url}/asked", key=["id"], event_time="at")
    words = ("retract", "asked", "--key", "id=3")
    shown = odf(*words, "--dry-run", **env)
    assert '"id": 3' in shown.stdout
    assert "dry run, updated: 1 row(s)" in shown.stdout
    refused = odf(*words, expect=1, **env)  # nobody answers the question
    assert "Take back this row of" in refused.stderr
    odf(*words, "--json", expect=2, **env)
    done = json.loads(odf(*words, "--yes", "--json", **env).stdout)
    assert (done["rows"][0]["id"], done["receipt"]["rowsRetracted"]) == (3, 1)
    odf(*words, "--yes", expect=3, **env)
    odf("retract", "asked", "--key", "id", expect=2, **env)
    back = tmp_path / "back.ndjson"
    lines = (
        {"op": 1, "id": 4, "v": 4.0, "tags": ["b", "c"]},
        {"op": 0, "at": "2026-01-01T00:00:00Z", "id": 4},
    )
    back.write_text("".join(json.dumps(each) + "\n" for each in lines))
    odf("ingest", back, "asked", "--changelog", **env)
    rows = odf_node.open(f"{node.url}/asked").arrow(changelog=True)
    assert rows["op"].to_pylist() == [0, 0, 0, 0, 1, 1, 0]
    assert rows["at"][5] == rows["at"][3]
    odf("ingest", back, "asked", "--changelog", "--source-name", "x", expect=2, **env)


def test_a_changelog_needs_rows_to_correct(node, env):
    with node.http(env["ODF_NODE_TOKEN"]) as client:
        seed = {
            "kind": "DatasetSnapshot",
            "version": 1,
            "content": {"name": "empty", "kind": "Root", "metadata": []},
        }
        client.post("/datasets", json=seed).raise_for_status()
        answer = client.post("/empty/ingest?changelog=true", content=b"{}\n")
    assert answer.status_code == 400
    assert "no rows yet" in answer.text
