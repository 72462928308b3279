"""Stored bodies of posts, which are deleted after their jobs have ended.

Each post has its own copy, because services and workers do not know of each other's posts of the
same bytes. If a service is killed, its uploads are deleted at the next start.
"""

from __future__ import annotations

from collections.abc import Iterator

from odf_protocol.errors import BadInput
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.stores.ports import JobRecords, Objects
from odf_storage.stores.ports.values import Job, ObjectKey

from ..jobs.job_watch import FINISHED

SWEEP_PAGE = 500


class Uploads:
    """Deletes uploads that no job needs any more."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def done_with(self, key: ObjectKey) -> None:
        """Delete the upload of a post."""
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
            self._objects.delete(key)
        return len(ended)


def upload_of(job: Job) -> ObjectKey | None:
    """Return the upload that an ingest job reads, None for other jobs."""
    if job.spec.kind != ingest_job.KIND or job.spec.dataset is None:
        return None
    try:
        return ingest_job.upload_of(job.spec.dataset, ingest_job.payload_of(job.spec.payload))
    except BadInput:
        return None


def _all_jobs(jobs: JobRecords) -> Iterator[Job]:
    after = None
    while page := jobs.page(after=after, limit=SWEEP_PAGE):
        yield from page
        after = page[-1].id
