"""A worker for publication jobs in a thread of the test, and publications of a served node."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetRef
from odf_storage.datasets.job_payloads import publish_job
from odf_storage.stores.ports.errors import LeaseLost
from odf_storage.stores.ports.values import Failed, Succeeded
from odf_workers.jobs.reading.publish import run_publication


def run_job(stores, job, context) -> Any:
    """The outcome of a publication job."""
    try:
        dataset = stores.dataset(DatasetRef(id=job.spec.dataset))
        payload = publish_job.payload_of(job.spec.payload)
        return Succeeded(publish_job.to_json(run_publication(stores, dataset, payload, context)))
    except NodeError as error:
        return Failed.of(error)


def in_process(*, publish_to=(), scratch=None):
    """What a worker without Spark gives a publication job."""
    few = SimpleNamespace(micro_batch_bytes=8 << 20)
    return SimpleNamespace(publish_to=publish_to, commit_attempts=5, scratch=scratch, ingest=few)


@contextmanager
def publishing(stores, *, publish_to=(), scratch=None):
    """Publication jobs are done until the block ends."""
    context = in_process(publish_to=publish_to, scratch=scratch)
    stop = Event()

    def work() -> None:
        while not stop.wait(0.01):
            job = stores.jobs.claim("w", [publish_job.KIND], lease=timedelta(seconds=30))
            if job is not None:
                outcome = run_job(stores, job, context)
                with suppress(LeaseLost):  # its dataset was deleted meanwhile
                    stores.jobs.finish(job.id, "w", outcome)

    thread = Thread(target=work, daemon=True)
    thread.start()
    yield context
    stop.set()
    thread.join()


def until(client, path, *, seconds=90, **wanted) -> dict[str, Any]:
    """The publication, once it says what is wanted."""
    deadline = time.monotonic() + seconds
    while True:
        shown = client.get(path).json()
        if all(shown.get(name) == value for name, value in wanted.items()):
            return shown
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
