"""Refresh: a dataset fetches what its polling source has; a worker does it."""

from __future__ import annotations

import json

from msgspec.structs import replace

from protocol.errors import BadInput
from protocol.identity import DatasetRef
from protocol.metadata.events import DatasetKind
from storage import poll_job
from storage.poll_job import PollPayload
from storage.values import DatasetEntry, Job, JobId, JobSpec

from ..wiring import Node
from .ingest import parsed_event_time
from .mirrors import NotAMirror, submit_pull
from .uploads import FINISHED


class NotRefreshable(BadInput):
    """The dataset has no data of its own to fetch."""


def submit_refresh(
    node: Node, entry: DatasetEntry, payload: PollPayload, *, force: bool = False
) -> JobId:
    """Queue a poll, or the pull of a mirror; one that waits already is joined.

    Raises:
        NotRefreshable: a derivative dataset. NotAMirror: forced, and it follows nothing.
        InvalidEventTime: the fallback event time is no instant.
    """
    if node.stores.mirrors.find(entry.id) is not None:
        return submit_pull(node, entry, force=force)
    if force:
        raise NotAMirror("only a mirror can be forced to follow: this dataset is none")
    state = node.stores.dataset(DatasetRef(id=entry.id)).state()
    if state.kind is DatasetKind.Derivative:
        raise NotRefreshable("Derivative datasets compute their data; only a root fetches data")
    when = parsed_event_time(payload.source_event_time)
    asked = poll_job.to_json(replace(payload, source_event_time=when))
    lock = str(entry.id)
    key = f"{poll_job.KIND}:{lock}:{json.dumps(asked, sort_keys=True)}"
    return node.stores.jobs.submit(
        JobSpec(poll_job.KIND, entry.id, asked, lock=lock, dedup_key=key)
    )


def ended(node: Node, job: JobId) -> Job | None:
    """The job once it has ended, else None."""
    found = node.stores.jobs.get(job)
    return found if found.status in FINISHED else None
