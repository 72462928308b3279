"""What operators see: counts, deeds, traces and log lines of requests."""

from __future__ import annotations

import io
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client.parser import text_string_to_metric_families
from servers import wait_until
from service import Service, seeded, ten_rows

from odf_node.cli.main import main
from odf_node.service.observe.audit_writer import AuditWriter
from odf_node.service.observe.metrics import Counters
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant
from odf_storage.runtime.logs import (
    JsonLines,
    TextLines,
    current_trace,
    is_wanted,
    line,
    new_trace,
    part_of,
    start_tracing,
    stop_tracing,
    trace_id,
)
from odf_storage.stores.ports.accounts import AuditEntry, AuditFilter

TRACE = "a" * 32
MARK = "mark"
TRACEPARENT = f"00-{TRACE}-{'b' * 16}-01"


def metrics(service: Service) -> dict[tuple[str, ...], float]:
    with service.http() as client:
        text = client.get("/system/metrics").text
    return {
        (sample.name, *(sample.labels.get(k, "") for k in ("method", "route", "status"))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def audit_entries(service: Service, **which):
    """Deeds so far: a mark written behind them has arrived, so they have."""
    with service.http() as client:  # what follows the answer to an earlier request is done now
        client.get("/system/health")
    mark, audit = new_trace(), service.node.stores.audit
    service.node.audit_writer.write(
        AuditEntry(at=Instant(0), actor=mark, action=MARK, subject="", outcome="done")
    )
    wait_until(lambda: bool(audit.page(AuditFilter(actor=mark))), "the mark")
    return [
        audit_entry
        for audit_entry in audit.page(AuditFilter(**which))
        if audit_entry.action != MARK
    ]


def test_requests_are_counted_by_route_and_status(single):
    before = metrics(single)
    with single.http() as client:
        client.get("/datasets")
        client.get("/nobody/knows/this")
        client.get("/foo/refs/head")
    after = metrics(single)

    def more(*key: str) -> float:
        return after.get(key, 0) - before.get(key, 0)

    assert more("odf_requests_total", "GET", "/datasets", "200") == 1
    assert more("odf_requests_total", "GET", "other", "404") == 1
    assert more("odf_requests_total", "GET", "/{dataset}/refs/{name}", "404") == 1
    assert more("odf_request_seconds_count", "GET", "/datasets", "") == 1


def test_reads_that_are_answered_at_once_are_counted_as_well(single):
    chain = ten_rows()
    single.keep(chain, "kamu/counted")
    with single.http() as client:
        for _ in range(9):
            assert client.get("/counted/refs/head").status_code == 200
    key = ("odf_requests_total", "GET", "/{dataset}/refs/{name}", "200")
    assert metrics(single)[key] >= 9


def test_the_queue_shows_in_the_metrics(single):
    single.keep(seeded(), "kamu/queued")
    with single.http(single.token()) as client:
        answer = client.post(
            "/queued/ingest",
            content=b'{"a": 1}\n',
            headers={"content-type": "application/x-ndjson", "prefer": "respond-async, wait=0"},
        )
        assert answer.status_code in (202, 400), answer.text
        text = client.get("/system/metrics").text
    assert "odf_datasets" in text
    assert "process_cpu_seconds_total" in text


def test_who_asks_for_a_change_is_written_down(single):
    with single.http(single.token()) as client:
        answer = client.post("/datasets", json={"nonsense": True})
    found = audit_entries(single, action="POST /datasets")[0]
    assert (found.actor, found.outcome) == ("kamu", str(answer.status_code))
    assert found.subject == "POST /datasets"
    assert trace_id(found.trace) == answer.headers["x-trace-id"]
    assert found.address == "127.0.0.1"


def test_what_was_refused_is_written_down_too(single):
    with single.http("ka_nobody") as client:
        client.put("/foo/data/f1620" + "0" * 64, content=b"x")
        client.post("/datasets", json={})
    assert {audit_entry.actor for audit_entry in audit_entries(single)[:2]} >= {"anonymous"}


def test_tokens_of_uploads_are_written_down_nowhere(single, caplog):
    caplog.set_level(logging.INFO, "odf.node")
    with single.http(single.token()) as client:
        asked = {"fileName": "a.csv", "contentLength": 2}
        slip = client.post("/platform/file/upload/prepare", params=asked).json()
        assert client.post(slip["uploadUrl"], files={"file": b"a\n"}).status_code == 200
    subjects = {audit_entry.subject for audit_entry in audit_entries(single)}
    assert {"POST /platform/file/upload/prepare", "POST /platform/file/upload/…"} <= subjects
    assert slip["uploadToken"] not in caplog.text + str(subjects)


def test_reading_is_no_deed(single):
    before = len(audit_entries(single))
    with single.http() as client:
        client.get("/datasets")
        client.head("/datasets")
    assert len(audit_entries(single)) == before


def test_the_dataset_of_a_deed_is_known_by_its_id(single):
    chain = ten_rows()
    single.keep(chain, "kamu/shown")
    with single.http(single.token()) as client:
        client.post("/shown/ingest", content=b"x", headers={"content-encoding": "nonsense"})
    assert audit_entries(single, dataset=chain.id)[0].subject == "POST /shown/ingest"


def test_administrators_read_the_audit_log_and_nobody_else(multi):
    with multi.http(multi.token("anna")) as client:
        client.post("/datasets", json={})
        assert client.get("/system/audit").status_code == 403
    with multi.http() as client:
        assert client.get("/system/audit").status_code == 401
    token = multi.token("boss")
    boss = multi.node.stores.accounts.find_account("boss")
    from dataclasses import replace

    multi.node.stores.accounts.put_account(replace(boss, is_admin=True))
    assert audit_entries(multi)
    with multi.http(token) as client:
        page = client.get("/system/audit", params={"actor": "anna", "limit": 1}).json()
        assert page["deeds"][0]["action"] == "POST /datasets"
        assert client.get("/system/audit", params={"since": "yesterday"}).status_code == 400


def test_the_command_prints_deeds_and_commands_are_deeds(tmp_path, capsys):
    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--data", str(tmp_path)])
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    run("token", "create", "--account", "kamu")
    told = [json.loads(text) for text in run("audit", "--json").splitlines()]
    assert told[0]["action"] == "create_token"
    assert told[0]["actor"].startswith("local:")
    assert "create_token" in run("audit", "--action", "create_token")
    assert run("audit", "--action", "no_such_action") == ""


def test_a_request_continues_the_trace_it_is_part_of(single):
    with single.http() as client:
        given = client.get("/datasets", headers={"traceparent": TRACEPARENT})
        fresh = client.get("/datasets", headers={"traceparent": "nonsense"})
    assert given.headers["x-trace-id"] == TRACE
    assert len(fresh.headers["x-trace-id"]) == 32
    assert fresh.headers["x-trace-id"] != TRACE


def test_a_problem_says_its_trace(single):
    with single.http() as client:
        answer = client.get("/datasets", params={"limit": "many"})
    assert answer.json()["traceId"] == answer.headers["x-trace-id"]


def test_a_job_is_part_of_the_trace_of_its_request(single):
    chain = ten_rows()
    entry = single.keep(chain, "kamu/traced")
    with part_of(TRACEPARENT):
        from odf_storage.stores.ports.values import JobSpec

        job = single.node.stores.jobs.submit(JobSpec("none", entry.id, {}))
    assert single.node.stores.jobs.get(job).spec.trace == TRACEPARENT
    single.node.stores.jobs.cancel(job)
    assert single.node.stores.registry.find(DatasetRef(id=entry.id)) is not None


@pytest.mark.parametrize("bad", ["", "x", "00-" + "0" * 32 + "-" + "b" * 16 + "-01"])
def test_an_unusable_trace_begins_a_new_one(bad):
    assert trace_id(new_trace(bad)) not in (None, "0" * 32)


def _logged(formatter: logging.Formatter, message, **more) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.Logger("odf.test")
    logger.addHandler(handler)
    logger.error(message, **more)
    return stream.getvalue()


def test_a_line_for_machines_is_one_object_with_its_fields_and_origin():
    with part_of(TRACEPARENT, dataset="did:odf:x", actor="anna"):
        told = json.loads(_logged(JsonLines(), line("job done", rows=3, nothing=None)))
    assert told["message"] == "job done"
    assert told["rows"] == 3
    assert (told["trace"], told["dataset"], told["actor"]) == (TRACE, "did:odf:x", "anna")
    assert "nothing" not in told


def test_a_line_for_people_says_where_it_belongs():
    with part_of(TRACEPARENT, job="7"):
        told = _logged(TextLines(), line("job done", job="7", note="two words"))
    assert told.endswith(f'job done job=7 note="two words" trace={TRACE}\n')


def test_an_exception_stays_on_the_line_of_its_object():
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        told = _logged(JsonLines(), "failed", exc_info=True)
    assert told.count("\n") == 1
    assert "broken" in json.loads(told)["exception"]


def test_deeds_that_cannot_be_recorded_go_to_the_log(caplog):
    class Away:
        def record(self, audit_entries):
            raise OSError("no database")

    counters = Counters()
    audit_writer = AuditWriter(Away(), counters)  # type: ignore[arg-type]
    from tests.conformance.audit_log import ENTRY

    audit_writer.write(ENTRY)
    audit_writer.close()
    assert counters.deeds_lost == 1
    assert "POST /datasets" in caplog.text


def test_traces_are_sent_where_the_environment_says(monkeypatch, tmp_path):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    from service import serving

    start_tracing("odf-node", "test")
    try:
        with serving(tmp_path, tenancy="single") as service, service.http() as client:
            client.get("/datasets", headers={"traceparent": TRACEPARENT})
    finally:
        stop_tracing()
        server.shutdown()
        server.server_close()
    spans = [s for r in received for g in r.resource_spans for c in g.scope_spans for s in c.spans]
    assert [span.name for span in spans if span.trace_id.hex() == TRACE] == ["GET /datasets"]


def test_without_an_endpoint_there_are_no_traces():
    assert not is_wanted({})
    assert not is_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"})
    assert is_wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"})
    assert current_trace() is None
