"""Refresh: a dataset fetches what its source has, or computes what is new; a worker does it."""

from __future__ import annotations

import json

from msgspec.structs import replace

from protocol.metadata.events import DatasetKind
from storage.contracts import poll_job
from storage.contracts.poll_job import PollPayload
from storage.values import DatasetEntry, JobId, JobSpec

from ..wiring import Node
from .ingest import parsed_event_time
from .mirrors import NotAMirror, submit_pull
from .refresh_derivative import submit_transform


def submit_refresh(
    node: Node,
    entry: DatasetEntry,
    payload: PollPayload,
    *,
    force: bool = False,
    reset_on_diverged: bool | None = None,
) -> JobId:
    """Queue a poll, the pull of a mirror, or a transform; one that waits already is joined.

    Raises:
        NotAMirror: forced, and it follows nothing.
        InvalidEventTime: the fallback event time is no instant.
    """
    if node.stores.mirrors.find(entry.id) is not None:
        return submit_pull(node, entry, force=force)
    if force:
        raise NotAMirror("only a mirror can be forced to follow: this dataset is none")
    if entry.kind is DatasetKind.Derivative:
        return submit_transform(node, entry, reset_on_diverged=reset_on_diverged)
    when = parsed_event_time(payload.source_event_time)
    asked = poll_job.to_json(replace(payload, source_event_time=when))
    lock = str(entry.id)
    key = f"{poll_job.KIND}:{lock}:{json.dumps(asked, sort_keys=True)}"
    return node.stores.jobs.submit(
        JobSpec(poll_job.KIND, entry.id, asked, lock=lock, dedup_key=key)
    )
