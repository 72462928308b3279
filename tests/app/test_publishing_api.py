"""Publishing over HTTP: repeats, packed bodies, forms, limits, jobs that are followed and ended.

The worker is a thread that claims from the real queue and says what the test says.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
import zlib
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import pytest
import zstandard
from servers import wait_until
from service import seeded, serving

from odf_node.cli.datasets.schedules import run_line
from odf_node.service.errors import PROBLEM_TYPE
from odf_protocol.codec.manifests import load_event
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.stores.ports.values import Failed, JobId, Succeeded

CSV = {"content-type": "text/csv"}
BODY = b"city\nA\nB\n"
SOURCE = """
kind: MetadataEvent
version: 1
content:
  kind: AddPushSource
  sourceName: default
  read: {kind: Csv, header: true, schema: {fields: [{name: city, type: String}]}}
  merge: {kind: Append}
"""
LEASE = timedelta(seconds=30)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    settings = {"max_waiting_dataset": 3, "max_body_bytes": 1 << 20, "max_unpacked_ratio": 50}
    with serving(tmp_path_factory.mktemp("node"), **settings) as service:
        for name in ("foo", "busy", "other"):
            service.keep(seeded().add(load_event(SOURCE)), f"kamu/{name}")
        yield service


@pytest.fixture
def client(service):
    with service.http(service.token()) as client:
        yield client


@contextmanager
def worker(service, outcome=lambda job: Succeeded({"body": job.spec.body.decode()})):
    """Claims jobs and finishes each with what `outcome(job)` gives; yields the jobs seen."""
    seen, stop = [], threading.Event()
    jobs = service.node.stores.jobs

    def work():
        while not stop.is_set():
            job = jobs.claim("w", [ingest_job.KIND], lease=LEASE)
            if job is None:
                stop.wait(0.01)
                continue
            seen.append(job)
            jobs.finish(job.id, "w", outcome(job))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def post(client, content=BODY, *, key=None, to="foo", params=None, **headers):
    given = {**CSV, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if key is not None:
        given["idempotency-key"] = key
    return client.post(f"/{to}/ingest", content=content, headers=given, params=params)


def test_a_repeat_under_the_same_key_has_the_same_receipt_and_runs_once(service, client):
    with worker(service) as seen:
        first = post(client, key='"one"')
        again = post(client, key="one")
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert len(seen) == 1


def test_repeats_at_the_same_time_wait_for_the_first(service):
    answers = []

    def send(token):
        with service.http(token) as client:
            answers.append(post(client, key="together"))

    token = service.token()
    senders = [threading.Thread(target=send, args=(token,)) for _ in range(6)]
    with worker(service, lambda job: time.sleep(0.2) or Succeeded({"n": 1})) as seen:
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    assert {answer.content for answer in answers} == {b'{"n":1}'}
    assert len(seen) == 1
    repeats = [answer for answer in answers if "idempotent-replayed" in answer.headers]
    assert len(repeats) == len(answers) - 1


def test_a_repeat_that_is_second_by_a_hair_is_told_to_be_one(service, client, monkeypatch):
    """The first is submitted when the second has looked for one already."""
    monkeypatch.setattr(service.node.stores.jobs, "repeated", lambda _: None)
    with worker(service) as seen:
        first, again = (post(client, key="by a hair") for _ in range(2))
    assert first.content == again.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert len(seen) == 1


@pytest.mark.parametrize(
    "other", [{"content": b"city\nC\n"}, {"params": {"dryRun": "true"}}, {"to": "foo"}]
)
def test_another_request_under_the_key_is_refused(service, client, other):
    key = f"other-{sorted(other)}"
    with worker(service):
        assert post(client, key=key).status_code == 200
        again = post(client, key=key, **other)
    assert again.status_code == (200 if "to" in other else 422)


def test_keys_are_those_of_an_account_on_a_dataset(service, client):
    with worker(service) as seen:
        post(client, key="mine")
        post(client, key="mine", to="other")
        assert len(seen) == 2


def test_what_failed_may_be_tried_again(service, client):
    outcomes = [Failed("BadRow", "line 3"), Succeeded({"rowsAdded": 2})]
    with worker(service, lambda job: outcomes.pop(0)):
        assert post(client, key="again").status_code == 400
        assert post(client, key="again").json() == {"rowsAdded": 2}
        assert post(client, key="again").json() == {"rowsAdded": 2}


def test_a_key_is_known_after_a_restart(tmp_path):
    answers = []
    for _ in range(2):
        with serving(tmp_path) as service:
            if not answers:
                service.keep(seeded().add(load_event(SOURCE)))
                token = service.token()
            with service.http(token) as client, worker(service) as seen:
                answers.append(post(client, key="k").content)
    assert answers[0] == answers[1]
    assert seen == []


def test_a_repeat_is_answered_though_the_source_is_gone(tmp_path):
    with serving(tmp_path) as service, service.http(service.token()) as client:
        service.keep(seeded().add(load_event(SOURCE)))
        with worker(service):
            assert post(client, key="k").status_code == 200
            event = {"kind": "DisablePushSource", "sourceName": "default"}
            manifest = {"kind": "MetadataEvent", "version": 1, "content": event}
            client.post("/foo/metadata", json=manifest).raise_for_status()
            assert post(client, key="k").status_code == 200
            keys = count()  # the service may believe for some seconds that there is a source
            wait_until(
                lambda: post(client, key=f"new {next(keys)}").status_code == 400, "a refusal"
            )


@pytest.mark.parametrize("key", ["", '""', "x" * 256])
def test_a_key_that_is_none_is_refused(client, key):
    assert post(client, key=key).status_code == 400


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("GZIP", lambda data: gzip.compress(data) + gzip.compress(b"C\n")),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("zstd", zstandard.compress),
        ("identity", bytes),
    ],
)
def test_packed_bodies_are_unpacked(service, client, encoding, pack):
    with worker(service):
        answer = post(client, pack(BODY), content_encoding=encoding)
    assert answer.json()["body"].encode().startswith(BODY)


@pytest.mark.parametrize(
    ("encoding", "content", "status"),
    [
        ("br", BODY, 415),
        ("gzip", BODY, 400),
        ("gzip", gzip.compress(BODY)[:-4], 400),
        ("zstd", zstandard.compress(BODY)[:-2], 400),
        ("gzip", gzip.compress(b"\0" * (1 << 21)), 413),
    ],
)
def test_what_cannot_be_unpacked_or_is_too_large_then_is_refused(client, encoding, content, status):
    assert post(client, content, content_encoding=encoding).status_code == status


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("rows.csv", "application/octet-stream", "text/csv"),
        ("rows.ndjson", "application/octet-stream", "application/x-ndjson"),
        ("rows.bin", "application/json", "application/json"),
        ("rows", "application/octet-stream", None),
    ],
)
def test_the_file_of_a_form_is_what_its_header_or_its_name_says(
    service, client, name, kind, expected
):
    with worker(service) as seen:
        answer = client.post("/foo/ingest", files={"data": (name, BODY, kind)})
    assert answer.json()["body"].encode() == BODY
    assert ingest_job.payload_of(seen[0].spec.payload).media_type == expected


def test_a_form_of_two_files_is_refused(client):
    files = [("a", ("a.csv", BODY)), ("b", ("b.csv", BODY))]
    assert client.post("/foo/ingest", files=files).status_code == 400


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "application/octet-stream"])
def test_a_client_that_does_not_know_what_it_sends_is_read_as_the_source_says(
    service, client, kind
):
    with worker(service) as seen:
        assert post(client, content_type=kind).status_code == 200
    assert ingest_job.payload_of(seen[0].spec.payload).media_type is None


def test_a_page_of_another_site_may_post(client):
    headers = {
        "origin": "https://elsewhere.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,idempotency-key,content-type",
    }
    answer = client.options("/foo/ingest", headers=headers)
    assert answer.status_code == 200
    assert "idempotency-key" in answer.headers["access-control-allow-headers"]


def test_more_than_may_wait_is_refused_with_a_time_to_come_back(service, client):
    answers = [post(client, to="busy", prefer="respond-async") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [202] * 3 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) > 0
    assert answers[-1].json()["limit"] == "max_waiting_dataset"
    for answer in answers[:3]:
        client.delete(f"/jobs/{answer.json()['job']}").raise_for_status()


def test_a_job_is_followed_as_it_gets_on(service, client):
    job = post(client, prefer="respond-async").json()
    told = []

    def follow():
        with service.http(service.token()) as other, other.stream("GET", job["events"]) as stream:
            for line in stream.iter_lines():
                told.extend([json.loads(line[6:])] if line.startswith("data: ") else [])

    follower = threading.Thread(target=follow)
    follower.start()
    jobs = service.node.stores.jobs
    _until(lambda: [each["status"] for each in told] == ["waiting"])
    jobs.claim("w", [ingest_job.KIND], lease=LEASE)
    jobs.extend(JobId(job["job"]), "w", lease=LEASE, progress={"phase": "read", "rows": 5})
    _until(lambda: told[-1]["progress"] == {"phase": "read", "rows": 5})
    jobs.finish(JobId(job["job"]), "w", Succeeded({"rowsAdded": 2}))
    follower.join(60)
    assert (told[-1]["status"], told[-1]["result"]) == ("succeeded", {"rowsAdded": 2})


def _until(ready):
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_job_is_cancelled_by_who_may_write_only(service, client):
    job = post(client, prefer="respond-async").json()["job"]
    with service.http() as stranger:
        assert stranger.delete(f"/jobs/{job}").status_code in (401, 403)
    answer = client.delete(f"/jobs/{job}")
    assert answer.json()["status"] == "cancelled"
    with worker(service) as seen:
        time.sleep(0.1)
    assert seen == []


def test_rejected_rows_are_given_to_who_may_write(service, client):
    rows = b'{"row":1,"line":2}\n'
    packed = gzip.compress(rows)
    params = {"onBadRows": "quarantine", "maxBadRows": "5"}
    with worker(service, lambda job: Succeeded({"rejectedJob": job.id}, packed)) as seen:
        first = post(client, key="rejecting", params=params)
        again = post(client, key="rejecting", params=params)
        strict = post(client, key="rejecting")
    assert first.content == again.content
    assert strict.status_code == 422
    assert len(seen) == 1
    assert seen[0].spec.payload["onBadRows"] == "quarantine"
    assert seen[0].spec.payload["maxBadRows"] == 5
    url = f"/jobs/{first.json()['rejectedJob']}/rejected"
    answer = client.get(url)
    assert (answer.content, answer.headers["content-type"]) == (rows, "application/x-ndjson")
    with service.http() as stranger:
        assert stranger.get(url).status_code == 403
    assert client.get("/jobs/17-of-nobody/rejected").status_code == 404


def test_a_job_without_rejected_rows_has_none_to_give(service, client):
    with worker(service, lambda job: Succeeded({"job": job.id})):
        done = post(client).json()["job"]
    answer = client.get(f"/jobs/{done}/rejected")
    assert (answer.status_code, answer.json()["type"]) == (404, PROBLEM_TYPE + "NoRejectedRows")


@pytest.mark.parametrize("params", [{"onBadRows": "skip"}, {"maxBadRows": "0"}])
def test_options_of_bad_rows_that_are_none_are_refused(client, params):
    assert post(client, params=params).status_code == 400


def test_a_limit_of_rows_to_set_aside_is_refused_where_none_are(service, client):
    for params in ({"maxBadRows": "5"}, {"maxBadRows": "5", "onBadRows": "fail"}):
        answer = post(client, params=params)
        assert (answer.status_code, answer.json()["type"]) == (
            400,
            PROBLEM_TYPE + "NothingSetAside",
        )
        assert "onBadRows=quarantine" in answer.json()["detail"]
    with worker(service) as seen:
        time.sleep(0.05)
    assert seen == []


def test_jobs_of_a_dataset_are_listed_newest_first_in_pages(service, client):
    with worker(service):
        made = [post(client, to="other", prefer="respond-async").json()["job"] for _ in range(3)]
        _until(lambda: service.node.stores.jobs.get(JobId(made[-1])).outcome is not None)
    page = client.get("/other/jobs", params={"limit": 2}).json()
    assert [each["id"] for each in page["jobs"]] == made[::-1][:2]
    more = client.get("/other/jobs", params={"limit": 2, "after": page["next"]}).json()
    assert more["jobs"][0]["id"] == made[0]
    assert client.get("/other/jobs", params={"status": "waiting"}).json()["jobs"] == []
    assert client.get("/other/jobs", params={"kind": "poll"}).json()["jobs"] == []
    assert client.get("/other/jobs", params={"status": "odd"}).status_code == 400


ASYNC = {"prefer": "respond-async", "content-type": "application/x-ndjson"}


def test_jobs_of_dry_runs_say_so(client):
    jobs = [
        client.post("/other/ingest", params=asked, content=b'{"n": 1}', headers=ASYNC).json()["job"]
        for asked in ({"dryRun": "true"}, {})
    ]
    listed = {job["id"]: job for job in client.get("/other/jobs").json()["jobs"]}
    dry, real = (listed[job] for job in jobs)
    assert (dry["dryRun"], "dryRun" in real) == (True, False)
    assert run_line(dry).endswith("dry run")
    assert not run_line(real).endswith("dry run")


def test_a_client_waits_as_long_as_it_likes(client):
    began = time.monotonic()
    answer = post(client, prefer="wait=1")
    assert answer.status_code == 202
    assert 0.9 < time.monotonic() - began < 60
    client.delete(f"/jobs/{answer.json()['job']}")


def test_sources_and_metadata_change_on_the_head_that_is_expected_only(service, client):
    head = client.get("/other").json()["head"]
    for event in (
        {"kind": "SetInfo", "description": "rows of cities"},
        {"kind": "SetLicense", "shortName": "x", "name": "X", "websiteUrl": "https://x.example"},
        {"kind": "SetVocab", "eventTimeColumn": "at"},
        {"kind": "DisablePushSource", "sourceName": "default"},
    ):
        manifest = {"kind": "MetadataEvent", "version": 1, "content": event}
        stale = client.post(
            "/other/metadata", json=manifest, params={"expectedHead": "f16" + "0" * 68}
        )
        assert stale.status_code in (400, 409)
        answer = client.post("/other/metadata", json=manifest, params={"expectedHead": head})
        assert answer.status_code == 200, answer.text
        late = client.post("/other/metadata", json=manifest, params={"expectedHead": head})
        assert late.status_code == 409
        head = answer.json()["head"]
    # By its name: plain small posts go by what was known a second ago, then it is the worker's.
    assert post(client, to="other", params={"sourceName": "default"}).status_code == 400
    absent = {"kind": "DisablePushSource", "sourceName": "default"}
    manifest = {"kind": "MetadataEvent", "version": 1, "content": absent}
    assert client.post("/other/metadata", json=manifest).status_code == 400
