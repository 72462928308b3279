"""What a worker does."""

from typing import Any

from odf_storage.stores.ports.values import Job
from odf_workers.program.handlers import JobContext


def greet(_context: JobContext, job: Job) -> dict[str, Any]:
    return {"greeted": job.spec.payload["name"]}
