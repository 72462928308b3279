"""Refresh over HTTP and from the command line: what is asked of the worker, what comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from threading import Event, Thread

import pytest
from service import seeded, serving

from odf_node.cli.datasets.refresh import refresh_text
from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_storage.stores.ports.values import Failed, JobId, Scope, Succeeded, Visibility

MAIN = "from odf_node.cli.main import main; main()"
HEAD = str(Multihash.of(b"head"))
RECEIPT = PollReceipt(outcome="updated", prev_head=HEAD, head=HEAD, rows_added=2, fetches=1)
DONE = Succeeded(poll_job.to_json(RECEIPT))


@pytest.fixture
def service(tmp_path):
    with serving(tmp_path, poll_s=0.05) as service:
        service.keep(seeded(), "kamu/city", Visibility.PUBLIC)
        yield service


@pytest.fixture
def token(service):
    return service.token()


class Finishing:
    """A worker that claims poll jobs and finishes them with what the test says."""

    def __init__(self, service, outcome):
        self.seen, self._stop = [], Event()
        self._jobs, self._outcome = service.node.stores.jobs, outcome
        self._thread = Thread(target=self._work, daemon=True)

    def _work(self):
        while not self._stop.wait(0.01):
            job = self._jobs.claim("w", [poll_job.KIND], lease=timedelta(seconds=30))
            if job is not None:
                self.seen.append(job)
                self._jobs.finish(job.id, "w", self._outcome)

    def __enter__(self):
        self._thread.start()
        return self.seen

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def test_a_refresh_is_answered_with_the_receipt(service, token):
    with Finishing(service, DONE) as seen, service.http(token) as client:
        answer = client.post("/city/refresh")
        assert (answer.status_code, poll_job.receipt_of(answer.json())) == (200, RECEIPT)
        client.post(
            "/city/refresh",
            params={
                "exhaustSources": "true",
                "fetchUncacheable": "true",
                "maxVanishPercent": "5",
            },
            headers={"odf-event-time": "2020-01-01T00:00:00Z"},
        )
    dataset = service.node.stores.dataset(DatasetRef.parse("kamu/city"))
    assert {job.spec.dataset for job in seen} == {dataset.id}
    assert {job.spec.lock for job in seen} == {str(dataset.id)}
    assert poll_job.payload_of(seen[0].spec.payload) == PollPayload()
    assert poll_job.payload_of(seen[1].spec.payload) == PollPayload(
        exhaust_sources=True,
        fetch_uncacheable=True,
        max_vanish_percent=5,
        source_event_time="2020-01-01T00:00:00Z",
    )


def test_what_keeps_a_source_from_being_fetched_is_told(service, token):
    failed = Failed("SourceUnreachable", "no connection", {"host": "srv.test"})
    with Finishing(service, failed), service.http(token) as client:
        answer = client.post("/city/refresh")
    assert answer.status_code == 502
    assert answer.json()["detail"] == "no connection"
    assert answer.json()["host"] == "srv.test"


def test_a_refresh_that_takes_long_names_its_job_and_equal_ones_share_it(service, token):
    with service.http(token) as client:
        first, second, other = (
            client.post("/city/refresh", params=query, headers={"prefer": "respond-async"})
            for query in ({}, {}, {"exhaustSources": "true"})
        )
        assert first.status_code == 202
        assert first.json()["job"] == second.json()["job"] != other.json()["job"]
        assert first.headers["location"].endswith(f"/jobs/{first.json()['job']}")
        job = service.node.stores.jobs.get(JobId(first.json()["job"]))
        assert job.spec.kind == poll_job.KIND


def test_only_who_may_write_may_refresh(service):
    with service.http() as client:
        assert client.post("/city/refresh").status_code in (401, 403)
        assert client.post("/absent/refresh").status_code in (401, 404)
    with service.http(service.token("kamu", Scope.READ)) as client:
        assert client.post("/city/refresh").status_code == 403


def test_parameters_that_cannot_be_are_refused(service, token):
    with service.http(token) as client:
        for params in ({"maxVanishPercent": "101"}, {"exhaustSources": "perhaps"}):
            assert client.post("/city/refresh", params=params).status_code == 400
        bad = client.post("/city/refresh", headers={"odf-event-time": "yesterday"})
        assert (bad.status_code, "odf-event-time" in bad.json()["detail"]) == (400, True)


def test_the_command_line_prints_the_receipt(service, token):
    with Finishing(service, DONE) as seen:
        words = ["refresh", f"{service.url}/city", "--exhaust-sources", "--json"]
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words, "--token", token],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert poll_job.receipt_of(json.loads(done.stdout)) == RECEIPT
    assert poll_job.payload_of(seen[0].spec.payload).exhaust_sources


def test_people_are_told_why_nothing_came_and_that_there_is_more():
    text = refresh_text({"outcome": "up-to-date", "head": HEAD, "noSourceDefined": True})
    assert "no polling source" in text
    assert "--fetch-uncacheable" in refresh_text({"outcome": "up-to-date", "uncacheable": True})
    assert "--exhaust-sources" in refresh_text({"outcome": "updated", "hasMore": True})
