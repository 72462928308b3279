"""The conformance command: its report, what it leaves out, and that it finds what is wrong."""

from __future__ import annotations

import ast
import json
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
import threaded_node as threads
from click.testing import CliRunner
from mimic import CHECKS, NodeNeed, node_for
from refusals import refusing
from static_files import static_files

import odf_conformance
from odf_conformance.chains import ten_records
from odf_conformance.node import Deviation, NodeUnderTest, check
from odf_conformance.report import data_of, junit_of, page_of, text_of
from odf_conformance.run import CheckOutcome, ConformanceReport, Status, node_of, run_checks
from odf_node.cli.copies import conformance as command

FEW = [one for one in CHECKS if one.id in ("A01", "B03", "K01", "Z01", "J03 J05")]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with threads.threaded_node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture(scope="module")
def bench(node):
    return node_for(node, "kamu")


def run(*words):
    return CliRunner().invoke(command.conformance, [str(word) for word in words])


def checks_of(done):
    return {name: one for one in json.loads(done.output)["checks"] for name in one["scenarios"]}


# --- the command


def test_a_public_dataset_is_checked_without_a_token_and_nothing_is_published(bench, node):
    made = bench.publish(ten_records(), "Public")
    before = len(bench.ask("GET", "/datasets", bench.token).body)
    done = run(made.url, "--read-only", "--json", "--patience", "0.1")
    assert done.exit_code == 0, done.output
    assert checks_of(done)["A01"]["status"] == "passed"
    assert checks_of(done)["B01"] == {
        **checks_of(done)["B01"],
        "status": "left out",
        "reason": "needs a token, and leave to publish datasets",
    }
    assert len(bench.ask("GET", "/datasets", bench.token).body) == before


def test_a_run_is_written_as_text_xml_and_a_page(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "CHECKS", FEW)
    junit, page = tmp_path / "report.xml", tmp_path / "report.html"
    done = run(bench.origin, "--token", bench.token, "--junit", junit, "--html", page)
    assert done.exit_code == 0, done.output
    assert "conforms: 5 passed, 0 failed, 0 left out" in done.output
    assert "stay on the node" not in done.output
    suites = ElementTree.fromstring(junit.read_text())
    assert sum(int(suite.get("tests")) for suite in suites) == len(FEW)
    assert "This node conforms: 5 passed" in page.read_text()


def test_what_was_published_is_deleted_again(bench, monkeypatch):
    def listed():
        return bench.ask("GET", "/datasets", bench.token).body

    before = listed()
    monkeypatch.setattr(command, "CHECKS", FEW)
    assert run(bench.origin, "--token", bench.token).exit_code == 0
    assert listed() == before


def test_what_a_node_cannot_delete_is_told():
    report = ConformanceReport(
        url="http://node.example", outcomes=[], left_behind=["http://node.example/a"]
    )
    assert "1 dataset(s) named conformance-… stay on the node" in text_of(report)


def test_a_node_that_deviates_ends_with_exit_code_one(bench, monkeypatch):
    def fails(_):
        raise Deviation("it does not")

    monkeypatch.setattr(command, "CHECKS", [*FEW, check("Z99", fails)])
    done = run(bench.origin, "--token", bench.token)
    assert done.exit_code == 1
    assert "FAIL Z99" in done.output
    assert "does NOT conform: 5 passed, 1 failed" in done.output


def test_a_token_is_needed_to_publish_and_has_to_be_known(bench):
    assert run(bench.origin).exit_code == 2
    assert run(bench.origin, "--token", "ka_unknown").exit_code == 2


@pytest.mark.parametrize("url", ["ftp://host/", "http://", "/folder"])
def test_an_address_of_another_kind_is_told(url):
    with refusing("NoNodeThere"):
        node_of(url, read_only=False)


def test_what_is_no_node_is_told(tmp_path):
    with static_files(tmp_path) as files, refusing("NoNodeThere", match="like an ODF node"):
        node_of(files.url, read_only=True)


def test_a_read_only_run_needs_a_dataset(bench):
    with refusing("NoNodeThere", match="public dataset"):
        node_of(bench.origin, read_only=True)


# --- reports


def made_report():
    one = partial(check, run=lambda _: None)
    return ConformanceReport(
        "http://host/<b>",
        [
            CheckOutcome(one("A01", title="it works"), Status.PASSED, seconds=0.5),
            CheckOutcome(one("Z01", title="it fails"), Status.FAILED, "\x1b[31m<script> & more"),
            CheckOutcome(one("Z02", title="it is skipped"), Status.LEFT_OUT, "needs a token"),
        ],
        ["http://host/conformance-1/"],
    )


def test_a_page_stands_alone_and_quotes_what_strangers_said():
    page = page_of(made_report())
    assert "<script>" not in page
    assert "&lt;script&gt; &amp; more" in page
    assert "http://host/&lt;b&gt;" in page
    assert all(word not in page for word in ("src=", "href=", "@import", "url("))


def test_junit_counts_failures_and_skips_by_group():
    suites = {suite.get("name"): suite for suite in ElementTree.fromstring(junit_of(made_report()))}
    assert set(suites) == {"Smart pull", "On the wire"}
    wire = suites["On the wire"]
    assert (wire.get("tests"), wire.get("failures"), wire.get("skipped")) == ("2", "1", "1")
    assert wire.find("testcase/failure").get("message") == " [31m<script> & more"


def test_text_and_json_say_the_same():
    text, data = text_of(made_report()), data_of(made_report())
    assert "1 passed, 1 failed, 1 left out" in text
    assert (data["ok"], data["passed"], data["failed"], data["leftOut"]) == (False, 1, 1, 1)
    assert "\x1b" not in text
    assert data["leftBehind"] == ["http://host/conformance-1/"]


def test_a_run_in_which_everything_was_left_out_is_no_success():
    bench = NodeUnderTest(origin="http://127.0.0.1:9", multi=False)
    report = run_checks(bench, [one for one in CHECKS if NodeNeed.WRITING in one.needs])
    assert not report.ok
    assert len(report.of(Status.LEFT_OUT)) == len(report.outcomes)


def test_a_node_that_is_gone_fails_its_checks_and_ends_the_run_in_order():
    bench = NodeUnderTest(
        origin="http://127.0.0.1:9", multi=False, dataset="http://127.0.0.1:9/foo/"
    )
    bench.read_only = True
    report = run_checks(bench)
    assert report.of(Status.PASSED) == []
    assert len(report.of(Status.FAILED)) > 20


# --- that deviations are found


def newline_behind_head(patch):
    from odf_node.service.objects import routes as objects

    send_whole = objects._send_whole

    async def with_newline(status, headers, body, send):
        if body.startswith(b"f1620"):
            body += b"\n"
            headers = [pair for pair in headers if pair[0] != b"content-length"]
            headers.append((b"content-length", b"%d" % len(body)))
        await send_whole(status, headers, body, send)

    patch.setattr(objects, "_send_whole", with_newline)


def any_version(patch):
    from odf_node.service.transfer import handshake

    patch.setattr(handshake, "_version", lambda scope: handshake.PROTOCOL_VERSION)


def pings(patch):
    configure = threads.server_config

    def pinging(application, settings):
        config = configure(application, settings)
        config.ws_ping_interval = config.ws_ping_timeout = 0.2
        return config

    patch.setattr(threads, "server_config", pinging)


def links_without_headers(patch):
    from odf_node.service.transfer.pull import Links

    given = Links._given
    bare = lambda self, url, file: type(given(self, url, file))(  # noqa: E731
        url=given(self, url, file).url, headers=(), expires_at=None
    )
    patch.setattr(Links, "_given", bare)


def everything_uploaded_again(patch):
    from odf_node.service.transfer.pull import Links

    patch.setattr(Links, "_is_here", lambda self, key: False)


def objects_not_looked_at(patch):
    from odf_storage.datasets.dataset import dataset

    patch.setattr(dataset, "check_objects", lambda *_: None)


def heads_that_are_not_compared(patch):
    from odf_node.service.transfer.push import PushExchange
    from odf_protocol.transfer.messages import Accepted, DatasetPushResponse

    def accept(self, request):
        self._request, self._expected = request, request.current_head
        return DatasetPushResponse(result=Accepted())

    patch.setattr(PushExchange, "_compare_heads", accept)


def rules_that_are_not_kept(patch):
    from odf_node.service.transfer import push
    from odf_storage.datasets.dataset import dataset

    # the state at the head, as if the new blocks were not there
    patch.setattr(push, "fold", lambda blocks, state=None: state)
    patch.setattr(dataset, "fold", lambda blocks, state=None: state)


def hidden_is_forbidden(patch):
    from odf_node.service import errors

    patch.setitem(errors.STATUS, "DatasetHidden", errors.HTTPStatus.FORBIDDEN)


@pytest.mark.parametrize(
    ("deviation", "scenario"),
    [
        (newline_behind_head, "Z01"),
        (any_version, "A10"),
        (pings, "Z09"),
        (links_without_headers, "C01"),
        (everything_uploaded_again, "C03"),
        (objects_not_looked_at, "Z16"),
        (heads_that_are_not_compared, "Z12"),
        (rules_that_are_not_kept, "Z29"),
        (hidden_is_forbidden, "D02"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_deviation_is_found(tmp_path, monkeypatch, deviation, scenario):
    deviation(monkeypatch)
    with threads.threaded_node(tmp_path, password_work=2) as node:
        found = run_checks(node_for(node, "kamu"), [one for one in CHECKS if one.id == scenario])
    assert found.of(Status.FAILED), text_of(found)


# --- independence


def test_the_checks_share_no_transport_code_with_the_node_or_its_client():
    folder = Path(odf_conformance.__file__).parent
    foreign = set()
    for module in folder.glob("*.py"):
        for line in ast.walk(ast.parse(module.read_text())):
            if isinstance(line, ast.ImportFrom):
                name = "outside" if line.level > 1 else "" if line.level else line.module or ""
                foreign.add(name)
            elif isinstance(line, ast.Import):
                foreign |= {alias.name for alias in line.names}
    banned = (
        "odf_node",
        "odf_storage",
        "odf_protocol.transfer",
        "odf_protocol.chain",
        "httpx",
        "websockets",
    )
    banned += ("tarfile", "uvicorn", "starlette", "fastapi")
    assert {name for name in foreign if name.startswith(banned)} == set()
