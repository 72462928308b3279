"""Submit verifications as jobs for a worker.

POST …/verify: have a worker verify a dataset and reproduce its executions.

The result of the last complete verification, as the description of a dataset shows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.note import read_note
from odf_storage.datasets.verify.pending import read_unverified
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports import ObjectStore
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.values import DatasetEntry, JobId, JobSpec

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.deps import ActorDep, BaseDep, WritableDep, wired
from ..http.parameters import NO_BODY, parse_hash
from ..jobs.job_watch import WaitingDep, job_answer

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

    jobs: JobQueue
    datasets: Stores
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


def _inputs(datasets: Stores, dataset: DatasetId) -> list[DatasetId]:
    try:
        declared = datasets.dataset(DatasetRef(id=dataset)).state().declared_inputs or ()
    except DatasetNotFound:  # deleted meanwhile
        return []
    return [one for one in declared if one is not None]


VerifyingDep = Annotated[Verifying, Depends(wired(Verifying))]
Hash = Annotated[str | None, Query(max_length=200)]


def add_verify_routes(router: APIRouter, prefix: str) -> None:
    """Add the route below the dataset addresses."""
    router.post(
        prefix + "/verify",
        summary="Have everything checked by a worker",
        tags=["history"],
        dependencies=NO_BODY,
    )(verify)


async def verify(
    verifying: VerifyingDep,
    waiting: WaitingDep,
    actor: ActorDep,
    entry: WritableDep,
    base: BaseDep,
    metadata_only: Annotated[bool, Query(alias="metadataOnly")] = False,
    rows: bool = True,
    replay: bool = True,
    recursive: bool = False,
    after: Hash = None,
    upto: Hash = None,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Return the report, or 202 with the job if the verification takes too long."""
    request = VerifyRequest(
        metadata_only=metadata_only,
        rows=rows,
        replay=replay,
        recursive=recursive,
        after=after,
        upto=upto,
    )
    job = await run_in_threadpool(submit_verify, verifying, actor, entry, request)
    return await job_answer(waiting, job, base, prefer)


def validation_of(
    objects: ObjectStore, dataset: DatasetId, head: Multihash | None
) -> dict[str, Any] | None:
    """Return up to which block, with which engines and when it was validated; None if never."""
    note = read_note(objects, dataset)
    if note is None:
        return None
    shown: dict[str, Any] = msgspec.to_builtins(note)
    shown.pop("version", None)
    return {**shown, "isCurrent": note.block == str(head)}


def unverified_of(objects: ObjectStore, dataset: DatasetId) -> dict[str, Any] | None:
    """Return the committed blocks whose rows are not hashed yet; None if there are none."""
    note = read_unverified(objects, dataset)
    if note is None:
        return None
    return {"after": note.after, "upto": note.upto, "since": note.since, "problem": note.problem}
