"""Submit verifications as jobs for a worker."""

from __future__ import annotations

import json
from dataclasses import dataclass

from odf_protocol.identity import DatasetId, DatasetRef
from odf_storage.datasets.dataset.dataset import Datasets
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.stores.ports import JobSubmissions
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.values import DatasetEntry, JobId, JobSpec

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.hashes import parse_hash

MAX_INPUTS = 1000
"""Limit of datasets that a recursive verification visits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What to verify; by default everything of the one dataset."""

    metadata_only: bool = False
    rows: bool = True
    replay: bool = True
    recursive: bool = False
    """Whether to verify inputs too, at any depth, as far as the caller may read them."""
    after: str | None = None
    upto: str | None = None


@dataclass(frozen=True)
class Verifying:
    """The parts of the node that verification jobs need."""

    jobs: JobSubmissions
    datasets: Datasets
    access: DatasetAccess


def submit_verify(
    verifying: Verifying, actor: Actor, entry: DatasetEntry, request: VerifyRequest
) -> JobId:
    """Queue a verification. The job takes no lock: it works on the head that it finds.

    Raises:
        UnreadableHash: `after` or `upto` is no hash.
    """
    inputs = visible_inputs(verifying, actor, entry) if request.recursive else []
    payload = VerifyPayload(
        objects=not request.metadata_only,
        rows=request.rows and not request.metadata_only,
        replay=request.replay and not request.metadata_only,
        after=None if request.after is None else str(parse_hash(request.after)),
        upto=None if request.upto is None else str(parse_hash(request.upto)),
        inputs=tuple(str(one) for one in inputs),
        requested_by=None if actor.account is None else actor.account.name,
    )
    asked = verify_job.to_json(payload)
    key = f"{verify_job.KIND}:{entry.id}:{json.dumps(asked, sort_keys=True)}"
    return verifying.jobs.submit(JobSpec(verify_job.KIND, entry.id, asked, dedup_key=key))


def visible_inputs(verifying: Verifying, actor: Actor, entry: DatasetEntry) -> list[DatasetId]:
    """Return all direct and indirect inputs that the actor may read, inputs before users."""
    found: dict[DatasetId, None] = {}
    seen = {entry.id}

    def visit(dataset: DatasetId) -> None:
        for one in _inputs(verifying.datasets, dataset):
            if (
                one in seen
                or verifying.access.visible(actor, one) is None
                or len(seen) > MAX_INPUTS
            ):
                continue
            seen.add(one)
            visit(one)
            found[one] = None

    visit(entry.id)
    return list(found)


def _inputs(datasets: Datasets, dataset: DatasetId) -> list[DatasetId]:
    try:
        declared = datasets.dataset(DatasetRef(id=dataset)).state().declared_inputs or ()
    except DatasetNotFound:  # deleted meanwhile
        return []
    return [one for one in declared if one is not None]
