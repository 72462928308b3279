"""Stored bodies of posts, which are deleted after their jobs have ended.

The key of an upload is the hash of its content, so two posts of the same bytes share it, and it is
deleted when both are done. If a service is killed, its uploads are deleted at the next start.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from odf_node.protocol.errors import BadInput
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.job_payloads import ingest_job
from odf_node.storage.stores.ports import JobRecords, Objects
from odf_node.storage.stores.ports.values import Job, ObjectKey, ObjectKind

from ..jobs.job_watch import FINISHED

SWEEP_PAGE = 500


class Uploads:
    """Reference counts of the uploads that this process needs."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self._users: Counter[ObjectKey] = Counter()

    def need(self, key: ObjectKey) -> None:
        """Keep the upload until `done_with`. Call it before the upload is stored."""
        with self._lock:
            self._users[key] += 1

    def done_with(self, key: ObjectKey) -> None:
        """Release the upload. Delete it if no other post needs it."""
        with self._lock:
            self._users[key] -= 1
            if self._users[key] <= 0:
                del self._users[key]
                self._objects.delete(key)

    def sweep(self, jobs: JobRecords) -> int:
        """Delete the uploads of jobs that have ended, unless other jobs need them. Return the
        number of uploads of ended jobs."""
        ended: set[ObjectKey] = set()
        waited_for: set[ObjectKey] = set()
        for job in _all_jobs(jobs):
            key = upload_of(job)
            if key is not None:
                (ended if job.status in FINISHED else waited_for).add(key)
        for key in ended - waited_for:
            with self._lock:
                if key not in self._users:
                    self._objects.delete(key)
        return len(ended)


def upload_of(job: Job) -> ObjectKey | None:
    """Return the upload that an ingest job reads, None for other jobs."""
    if job.spec.kind != ingest_job.KIND or job.spec.dataset is None:
        return None
    try:
        upload = Multihash.parse(str(job.spec.payload.get("upload")))
    except BadInput:
        return None
    return ObjectKey(job.spec.dataset, ObjectKind.UPLOAD, upload)


def _all_jobs(jobs: JobRecords) -> Iterator[Job]:
    after = None
    while page := jobs.page(after=after, limit=SWEEP_PAGE):
        yield from page
        after = page[-1].id
