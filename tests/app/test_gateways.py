"""Posts through proxies that have no patience: sent again under the same key, then followed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from click.testing import CliRunner
from fault_proxy import fault_proxy
from service import seeded, serving
from tests.app.test_publishing_api import SOURCE, worker

import odf_node
from odf_node.cli.main import main
from odf_node.client.nodes.http import (
    TransferFailed,
    Unreachable,
    open_http,
    repeated,
    retry_after,
)
from odf_node.client.uses.new_dataset import new_dataset
from odf_protocol.codec.manifests import load_event, load_snapshots
from odf_protocol.errors import BadInput
from odf_storage.stores.ports.values import Failed, Succeeded

RECEIPT = {"outcome": "updated", "head": "f1620aa", "rowsRead": 1, "rowsAdded": 1, "warnings": []}
DONE = Succeeded(RECEIPT)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("node")) as service:
        for name in ("rows", "moved"):
            service.keep(seeded().add(load_event(SOURCE)), f"kamu/{name}")
        yield service


@pytest.fixture
def proxy(service):
    with fault_proxy(service.url) as proxy:
        yield proxy


@pytest.fixture
def ingest(service, proxy, tmp_path):
    """`odf-node ingest` of one row through the proxy."""
    file = tmp_path / "rows.csv"
    file.write_bytes(b"city\nA\n")

    def run(*words, name=str(file), stdin=None):
        given = ["ingest", name, f"{proxy.url}/rows", "--token", service.token(), *words]
        return CliRunner().invoke(main, given, input=stdin)

    return run


@pytest.mark.parametrize(
    "faults",
    [
        ["502"],
        ["502 after doing", "503"],
        ["504 after doing", "504 after doing"],
        ["504 without a body"],
        ["504 in JSON", "503 in JSON"],
        ["408"],
        ["429"],
        ["reset after doing"],
        ["cut short"],
        ["pass", "504 after doing", "reset"],  # while the job is followed
    ],
    ids=" then ".join,
)
def test_case_06_a_post_that_a_proxy_gave_up_enters_once(service, proxy, ingest, faults):
    proxy.then(*faults)
    with worker(service, lambda _: DONE) as seen:
        done = ingest("--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rowsAdded"] == 1
    assert done.stderr == ""
    assert len(seen) == 1


def test_case_06_a_person_is_told_in_one_sentence_who_answered(service, proxy, ingest):
    proxy.then("504 after doing")
    with worker(service, lambda _: DONE):
        done = ingest()
    assert done.exit_code == 0
    assert done.stderr.startswith(f"the server 'nginx/1.26' at {proxy.url}, not a node")
    assert "504 Gateway Timeout" in done.stderr
    assert "<html>" not in done.output


def test_a_pipe_is_sent_again_from_its_beginning(service, proxy, ingest):
    proxy.then("504 after doing", "reset after doing")
    with worker(service, lambda _: DONE) as seen:
        done = ingest("--media-type", "text/csv", "--json", name="-", stdin=b"city\nB\n")
    assert done.exit_code == 0, done.output
    assert [job.spec.body for job in seen] == [b"city\nB\n"]


def test_when_the_time_for_repeats_is_over_the_key_is_named(service, proxy, ingest):
    proxy.always = "504 after doing"
    with worker(service, lambda _: DONE) as seen:
        done = ingest("--repeat-for", "1")
        assert done.exit_code == 1
        key = done.stderr.split("--key ")[1].split()[0]
        proxy.clear()
        again = ingest("--key", key)
    assert again.exit_code == 0
    assert again.stdout.startswith("replayed (the node had this request before), updated: ")
    assert len(seen) == 1
    proxy.always = "502"
    told = json.loads(ingest("--repeat-for", "0", "--json", "--key", "mine").stderr)
    assert (told["status"], told["answered_by"]) == (502, "nginx")
    assert told["idempotency_key"] == "mine"


def test_a_person_is_told_the_key_when_it_is_in_doubt_whether_the_node_took_the_rows(
    service, proxy, ingest
):
    proxy.then("500 after doing")
    with worker(service, lambda _: DONE) as seen:
        done = ingest()
        assert done.exit_code == 1
        assert ingest("--key", done.stderr.split("--key ")[1].split()[0]).exit_code == 0
    assert len(seen) == 1


NEW = """
kind: DatasetSnapshot
version: 1
content: {name: %s, kind: Root, metadata: [%s]}
"""
SENT = "{kind: AddPushSource, sourceName: x, read: {kind: NdJson}, merge: {kind: Append}}"


@pytest.mark.parametrize("fault", ["502 after doing", "504 in JSON", "reset after doing"])
def test_case_33_a_dataset_that_was_created_behind_a_proxy_that_gave_up_is_gone_on_with(
    service, proxy, fault
):
    text = (NEW % (f"begun-{fault[:3]}-{len(fault)}", SENT)).encode()
    proxy.then(fault)
    with open_http() as http:
        given = (http, f"{proxy.url}/", service.token(), text, load_snapshots(text)[0])
        made = new_dataset(*given, visibility="private")
        assert made.url.endswith(f"/{made.alias}"), "the address is one of this node"
        assert new_dataset(*given, visibility="private").head == made.head


def test_an_answer_that_says_nothing_of_the_new_dataset_is_told(service, proxy):
    text = (NEW % ("unsaid", SENT)).encode()
    proxy.then("200 in JSON")
    with open_http() as http, pytest.raises(TransferFailed, match="says nothing of a new dataset"):
        new_dataset(
            http, f"{proxy.url}/", service.token(), text, load_snapshots(text)[0],
            visibility="private",
        )  # fmt: skip


def test_case_32_a_body_that_a_proxy_does_not_take_is_explained(proxy, ingest):
    proxy.always = "413"
    done = ingest()
    assert done.exit_code == 1
    assert done.stderr == (
        f"odf-node: the server 'nginx' at {proxy.url}, not a node (there is no problem document), "
        "answered 413 Request Entity Too Large: it takes no body of this size: send the file in "
        "parts or compressed (.gz, .zst, .zip), or have the limit of that server raised\n"
    )
    assert proxy.seen == ["POST /rows/ingest"]


def test_an_address_that_moved_is_named(proxy, ingest):
    proxy.always = "308"
    assert "308 Permanent Redirect: use the address https://node.example/rows" in ingest().stderr


def test_a_job_that_failed_is_not_taken_for_a_proxy(service, proxy, ingest):
    busy = Failed("RowStoreGone", "the rows are not there", branch="Unavailable")
    with worker(service, lambda _: busy) as seen:
        done = ingest()
    assert done.exit_code == 1
    assert "the rows are not there" in done.stderr
    assert len(seen) == 1


def test_a_frame_is_published_through_a_proxy_that_gives_up(service, proxy):
    proxy.then("pass", "504 after doing", "reset after doing")
    with worker(service, lambda _: DONE) as seen:
        made = odf_node.publish([{"city": "A"}], f"{proxy.url}/rows", token=service.token())
    assert (made.rows_added, made.replayed) == (1, True)
    assert len(seen) == 1


def test_the_same_rows_after_another_change_are_a_request_of_their_own(service):
    """The head is part of the name; a repeat before the head moved is told to be one."""
    url, token, rows = f"{service.url}/moved", service.token(), [{"city": "A"}]
    with worker(service, lambda _: DONE) as seen:
        assert not odf_node.publish(rows, url, token=token).replayed
        again = odf_node.publish(rows, url, token=token)
        assert (again.replayed, len(seen)) == (True, 1)
        with service.http(token) as http:
            event = "kind: MetadataEvent\nversion: 1\ncontent: {kind: SetInfo, description: x}"
            yaml = {"content-type": "application/yaml"}
            assert http.post("/moved/metadata", content=event, headers=yaml).status_code == 200
        assert not odf_node.publish(rows, url, token=token).replayed
        assert len(seen) == 2


def test_a_read_is_repeated_if_a_proxy_asks_for_it_and_fails_at_once_otherwise(service, proxy):
    proxy.then("503", "502")
    listed = CliRunner().invoke(main, ["dataset", "list", "--node", proxy.url, "--json"])
    assert listed.exit_code == 0, listed.output
    assert len(proxy.seen) == 3
    proxy.clear()
    proxy.then("a stranger's 404")
    listed = CliRunner().invoke(main, ["dataset", "list", "--node", proxy.url])
    assert listed.exit_code == 3
    assert "answered 404 Not Found: check the address" in listed.stderr
    assert len(proxy.seen) == 1


def test_retry_after_is_a_number_or_a_date():
    assert retry_after("7") == 7
    assert retry_after(None) is retry_after("soon") is None
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < retry_after(later) <= 60
    assert retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0


def test_a_pause_longer_than_the_time_that_is_left_ends_the_repeats():
    tried = []

    def busy(attempt):
        tried.append(attempt)
        raise BadInput("busy", status=429, retry_after_s=60)

    with pytest.raises(BadInput):
        repeated(busy, seconds=30)
    assert tried == [0]


def test_a_host_that_was_never_reached_is_not_tried_for_long(monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(slept))

    def refused(_):
        raise Unreachable("no answer") from httpx.ConnectError("refused")

    with pytest.raises(Unreachable):
        repeated(refused, seconds=300)
    assert sum(slept) < 10
