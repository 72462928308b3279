"""Push ingest over HTTP: what is refused at once, what waits for a worker, what comes back.

The worker is a thread that claims from the real queue and finishes with what the test says.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
import sqlalchemy as sa
from service import seeded, serving

from odf_node.service.ingest.posts import upload_of
from odf_protocol.codec.manifests import load_event
from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.stores.jobs.sql_rows import is_job
from odf_storage.stores.ports.values import (
    Failed,
    JobId,
    ObjectKind,
    Scope,
    Succeeded,
    Visibility,
)
from odf_storage.stores.sql.engine import writing
from odf_storage.stores.sql.tables import jobs

CSV = {"content-type": "text/csv"}
SAME, FIRST, SECOND = (word * 20_000 for word in (b"same", b"first", b"second"))
"""Too long to travel in a job."""
SOURCE = """
kind: MetadataEvent
version: 1
content:
  kind: AddPushSource
  sourceName: {name}
  read: {{kind: Csv, header: true, schema: {{fields: [{{name: city, type: String}}]}}}}
  merge: {{kind: Append}}
"""


def with_sources(*names):
    chain = seeded()
    for name in names:
        chain.add(load_event(SOURCE.format(name=name)))
    return chain


@contextmanager
def worker(service, outcome):
    """Claims jobs and finishes each with what `outcome(job)` gives; yields the jobs seen."""
    seen, stop = [], threading.Event()
    jobs = service.node.stores.jobs

    def work():
        while not stop.is_set():
            job = jobs.claim("w", [ingest_job.KIND], lease=timedelta(seconds=30))
            if job is None:
                stop.wait(0.01)
                continue
            seen.append(job)
            try:
                ended = outcome(job)
            except Exception as error:  # let the request end, and the test say why
                ended = Failed("Test", repr(error))
            jobs.finish(job.id, "w", ended)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def receipt(head):
    return ingest_job.IngestReceipt(
        outcome="updated",
        prev_head=str(head),
        head=str(Multihash.of(b"new")),
        blocks=(str(Multihash.of(b"new")),),
        offset_start=0,
        offset_end=1,
        rows_read=2,
        rows_added=2,
    )


@pytest.fixture(scope="module")
def node(multi):
    chain = with_sources("default")
    multi.keep(chain, "alice/one")
    multi.keep(with_sources("s1", "s2"), "alice/two")
    multi.keep(with_sources(), "alice/none")
    multi.keep(with_sources("default"), "alice/private", Visibility.PRIVATE)
    return multi


@pytest.fixture
def post(node):
    with node.http(node.token("alice")) as client:

        def send(path, content=b"city\nA\nB\n", headers=CSV, **params):
            return client.post(path, content=content, headers=headers, params=params)

        yield send


def test_a_batch_is_answered_with_its_receipt(node, post):
    done = receipt(Multihash.of(b"old"))
    read = []

    def finish(job):
        read.append(job.spec.body)
        return Succeeded(ingest_job.to_json(done))

    with worker(node, finish) as seen:
        answer = post("/alice/one/ingest")
    assert answer.status_code == 200
    assert ingest_job.receipt_of(answer.json()) == done
    assert answer.json()["rowsAdded"] == 2
    (job,) = seen
    payload = ingest_job.payload_of(job.spec.payload)
    assert (payload.media_type, payload.source_name) == ("text/csv", None)
    assert job.spec.lock == str(job.spec.dataset)
    assert Multihash.parse(payload.upload) == Multihash.of(b"city\nA\nB\n")
    assert read == [b"city\nA\nB\n"]
    assert uploads(node, job.spec.dataset) == []


def test_a_larger_body_is_an_object_until_its_job_has_ended(node, post):
    content, read = b"city\n" + b"0123456789\n" * 10_000, []

    def finish(job):
        assert job.spec.body is None
        key = upload_of(job)
        assert key.hash == Multihash.of(content)
        with node.node.stores.objects.open(key) as upload:
            read.append(upload.read())
        return Succeeded({})

    with worker(node, finish) as seen:
        assert post("/alice/one/ingest", content).status_code == 200
    assert read == [content]
    assert uploads(node, seen[0].spec.dataset) == []


def uploads(service, dataset):
    kept = service.node.stores.objects.list(dataset)
    return [item.key.hash for item in kept if item.key.kind is ObjectKind.UPLOAD]


def test_parameters_travel_in_canonical_form(node, post):
    with worker(node, lambda job: Succeeded({})) as seen:
        answer = post(
            "/alice/two/ingest",
            headers={
                "content-type": "Application/JSON; charset=utf-8",
                "odf-event-time": "2050-01-01T13:00:00+01:00",
            },
            sourceName="s2",
            dryRun="true",
        )
    assert answer.status_code == 200
    payload = ingest_job.payload_of(seen[0].spec.payload)
    assert payload.media_type == "application/json"
    assert payload.source_event_time == "2050-01-01T12:00:00Z"
    assert (payload.source_name, payload.dry_run) == ("s2", True)


@pytest.mark.parametrize(
    ("path", "headers", "params", "status", "message"),
    [
        ("one", {"content-type": "application/pdf"}, {}, 415, "Unsupported media type"),
        ("one", {"content-type": "csv"}, {}, 415, "Unsupported media type"),
        ("one", {**CSV, "odf-event-time": "yesterday"}, {}, 400, "odf-event-time"),
        ("one", {**CSV, "odf-event-time": "2050-01-01"}, {}, 400, "odf-event-time"),
        ("one", CSV, {"sourceName": "x"}, 400, "Source 'x' not found"),
        (
            "two",
            CSV,
            {},
            400,
            "Explicit source name is required to pick between several active push sources",
        ),
        (
            "none",
            CSV,
            {},
            400,
            "Dataset does not define a default push source, consider specifying the source name",
        ),
        ("one", CSV, {"uploadToken": "x"}, 400, "Invalid upload token"),
    ],
)
def test_what_cannot_be_ingested_is_refused_before_it_is_queued(
    node, post, path, headers, params, status, message
):
    before = len(node.node.stores.jobs.page())
    answer = post(f"/alice/{path}/ingest", headers=headers, **params)
    assert answer.status_code == status
    assert message in answer.json()["message"]
    assert answer.json()["status"] == status
    assert len(node.node.stores.jobs.page()) == before


def test_a_derivative_takes_no_data(node, post):
    text = """
kind: DatasetSnapshot
version: 1
content:
  name: derived
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: alice/one, alias: i}]
      transform: {kind: Sql, engine: spark, query: select 1}
"""
    with node.http(node.token("alice")) as client:
        assert client.post("/datasets", content=text).status_code == 201
    assert post("/alice/derived/ingest").status_code == 400


def test_posting_needs_the_right_to_write(node):
    reader = node.token("alice", Scope.READ)
    for token, path, status in (
        (None, "one", 403),
        (node.token("bob"), "one", 403),
        (reader, "one", 403),
        (node.token("bob"), "private", 404),
        (None, "missing", 404),
    ):
        with node.http(token) as client:
            answer = client.post(f"/alice/{path}/ingest", content=b"city\nA\n", headers=CSV)
        assert (answer.status_code, answer.json()["status"]) == (status, status)


def test_the_error_of_a_job_becomes_a_problem_with_its_facts(node, post):
    cases = (
        (Failed("BadRow", "line 3: 'heavy' is no number", {"line": 3, "column": "v"}), 400),
        (Failed("RefConflict", "somebody else was first", {"expected": "a"}, "Conflict"), 409),
        (Failed("UnsupportedMediaType", "Unsupported media type", {}, "BadInput"), 415),
        (Failed("Internal", "something broke"), 500),
        (Failed("NeverHeardOf", "what is this"), 500),
    )
    for failed, status in cases:
        with worker(node, lambda job, failed=failed: failed):
            answer = post("/alice/one/ingest")
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["message"] == failed.message
        for name, fact in failed.facts.items():
            assert answer.json()[name] == fact


def test_who_does_not_wait_is_given_the_job(node, post):
    answer = post("/alice/one/ingest", headers={**CSV, "prefer": "respond-async"})
    assert answer.status_code == 202
    job = answer.json()["job"]
    assert answer.headers["location"] == f"{node.url}/jobs/{job}"
    with node.http() as client:
        shown = client.get(f"/jobs/{job}").json()
        assert (shown["status"], shown["kind"]) == ("waiting", "ingest")
        with worker(node, lambda job: Succeeded({"rowsAdded": 2})):
            _until(lambda: client.get(f"/jobs/{job}").json()["status"] == "succeeded")
        assert client.get(f"/jobs/{job}").json()["result"] == {"rowsAdded": 2}
    dataset = node.node.stores.jobs.get(JobId(job)).spec.dataset
    _until(lambda: uploads(node, dataset) == [])


def _until(ready):
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_failed_job_shows_its_problem_to_those_who_may_write(node, post):
    job = post("/alice/one/ingest", headers={**CSV, "prefer": "respond-async"}).json()["job"]
    with worker(node, lambda job: Failed("BadRow", "line 1 is bad", {"line": 1})):
        _until(lambda: node.node.stores.jobs.get(JobId(job)).outcome is not None)
    with node.http(node.token("alice")) as client:
        problem = client.get(f"/jobs/{job}").json()["problem"]
        assert (problem["status"], problem["line"]) == (400, 1)
        assert "line 1" in client.get(f"/jobs/{job}/events").text
    with node.http() as reader:
        for path in (f"/jobs/{job}", f"/jobs/{job}/events", "/alice/one/jobs"):
            told = reader.get(path).text
            assert "problem:BadRow" in told
            assert "line" not in told


def test_an_outcome_that_holds_no_text_does_not_break_lists(node, post):
    """As earlier versions stored them; they are kept for weeks."""
    job = post("/alice/one/ingest", headers={**CSV, "prefer": "respond-async"}).json()["job"]
    with worker(node, lambda job: Failed("BadRow", "bad", {"value": "x"})):
        _until(lambda: node.node.stores.jobs.get(JobId(job)).outcome is not None)
    poisoned = {"error": "BadRow", "message": "\ud800", "facts": {"value": "\ud800"}}
    with writing(node.node.stores.engine) as db:
        db.execute(sa.update(jobs).where(is_job(JobId(job))).values(outcome=poisoned))
    with node.http(node.token("alice")) as client:
        assert client.get(f"/jobs/{job}").json()["problem"]["value"] == "\\ud800"
        assert client.get("/alice/one/jobs").json()["jobs"][0]["problem"]["value"] == "\\ud800"


def test_jobs_of_hidden_datasets_are_hidden(node):
    owner = node.token("alice")
    with node.http(owner) as client:
        headers = {**CSV, "prefer": "respond-async"}
        answer = client.post("/alice/private/ingest", content=b"city\n", headers=headers)
        job = answer.json()["job"]
        assert client.get(f"/jobs/{job}").status_code == 200
        assert client.get("/jobs/none").status_code == 404
    with node.http(node.token("bob")) as client:
        assert client.get(f"/jobs/{job}").status_code == 404


def test_an_answer_that_takes_too_long_becomes_a_202(tmp_path):
    with serving(tmp_path, ingest_wait_s=0.1) as service:
        service.keep(with_sources("default"))
        with service.http(service.token()) as client:
            answer = client.post("/foo/ingest", content=b"city\nA\n", headers=CSV)
    assert answer.status_code == 202


def test_a_body_above_the_limit_is_refused_announced_or_not(tmp_path):
    with serving(tmp_path, max_body_bytes=1000, ingest_wait_s=0) as service:
        service.keep(with_sources("default"))
        with service.http(service.token()) as client:
            announced = client.post("/foo/ingest", content=b"x" * 1001, headers=CSV)
            chunks = client.post("/foo/ingest", content=iter([b"x" * 600] * 2), headers=CSV)
            fits = client.post("/foo/ingest", content=iter([b"x" * 500] * 2), headers=CSV)
        assert [announced.status_code, chunks.status_code, fits.status_code] == [413, 413, 202]
        for problem in (announced.json(), chunks.json()):
            assert problem["limit"] == 1000
            assert problem["detail"].endswith("(ODF_NODE_MAX_BODY_BYTES)")
        assert len(service.node.stores.jobs.page()) == 1


def test_a_large_body_arrives_whole(tmp_path):
    content = b"city\n" + b"0123456789\n" * 2_000_000
    with serving(tmp_path, ingest_wait_s=0) as service:
        entry = service.keep(with_sources("default"))
        with service.http(service.token()) as client:
            answer = client.post("/foo/ingest", content=content, headers=CSV)
        assert answer.status_code == 202
        objects = service.node.stores.objects.list(entry.id)
        [kept] = [each for each in objects if each.key.kind is ObjectKind.UPLOAD]
        assert (kept.key.hash, kept.size) == (Multihash.of(content), len(content))
        assert [p.name for p in (tmp_path / "uploads").iterdir()] == [entry.id.multibase]


def test_posts_of_the_same_bytes_have_uploads_of_their_own(node):
    alias = DatasetRef.parse("alice/one")
    dataset = node.node.stores.registry.get(alias).id
    with node.http(node.token("alice")) as client:
        headers = {**CSV, "prefer": "respond-async"}
        for _ in range(2):
            client.post("/alice/one/ingest", content=SAME, headers=headers)
    seen = []

    def outcome(job):
        if job.spec.dataset == dataset:
            if seen:  # the first one's is deleted soon after its job has ended
                _until(lambda: len(uploads(node, dataset)) < 2)
            seen.append(uploads(node, dataset))
        return Succeeded({})

    with worker(node, outcome):
        _until(lambda: len(seen) == 2)
    _until(lambda: uploads(node, dataset) == [])
    assert seen == [[Multihash.of(SAME)] * 2, [Multihash.of(SAME)]]


def test_an_upload_stays_when_another_service_is_done_with_the_same_bytes(tmp_path):
    read = []

    def outcome(job):
        if read:  # wait until the first service has deleted its own
            _until(lambda: len(uploads(other, dataset)) == 1)
        with other.node.stores.objects.open(upload_of(job)) as upload:
            read.append(upload.read())
        return Succeeded({})

    with serving(tmp_path) as one, serving(tmp_path) as other:
        dataset = one.keep(with_sources("default")).id
        for service in (one, other):
            with service.http(service.token()) as client:
                headers = {**CSV, "prefer": "respond-async"}
                assert client.post("/foo/ingest", content=SAME, headers=headers).status_code == 202
        with worker(other, outcome):
            _until(lambda: uploads(other, dataset) == [])
    assert read == [SAME, SAME]


def test_uploads_of_an_earlier_run_are_swept_once_their_jobs_have_ended(tmp_path):
    with serving(tmp_path, ingest_wait_s=0) as service:
        dataset = service.keep(with_sources("default")).id
        with service.http(service.token()) as client:
            for content in (FIRST, SECOND):
                client.post("/foo/ingest", content=content, headers=CSV)
        jobs = service.node.stores.jobs
        job = jobs.claim("w", [ingest_job.KIND], lease=timedelta(seconds=30))
    with serving(tmp_path) as service:
        assert len(uploads(service, dataset)) == 2
        service.node.stores.jobs.finish(job.id, "w", Succeeded({}))
    with serving(tmp_path) as service:
        _until(lambda: uploads(service, dataset) == [Multihash.of(SECOND)])
