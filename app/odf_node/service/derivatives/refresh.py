"""Refresh of a dataset: submit a job that polls its source, pulls its remote, or transforms its
inputs."""

from __future__ import annotations

import json
from dataclasses import dataclass

from msgspec.structs import replace

from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.datasets.job_payloads.poll_job import PollPayload
from odf_storage.stores.ports import JobSubmissions
from odf_storage.stores.ports.values import DatasetEntry, JobId, JobSpec

from ..http.event_time import parsed_event_time
from ..mirrors.mirrors import Mirrors, NotAMirror, submit_pull
from .refresh_derivative import Computing, submit_transform


@dataclass(frozen=True)
class Refreshing:
    """The dependencies of refreshes."""

    jobs: JobSubmissions
    mirrors: Mirrors
    computing: Computing


def submit_refresh(
    refreshing: Refreshing,
    entry: DatasetEntry,
    payload: PollPayload,
    *,
    force: bool = False,
    reset_on_diverged: bool | None = None,
) -> JobId:
    """Queue a poll, the pull of a mirror, or a transform. If an equal job waits already, return
    that one.

    Raises:
        NotAMirror: `force` is set, and the dataset is not a mirror.
        InvalidEventTime: the fallback event time is not an instant.
    """
    if refreshing.mirrors.stores.mirrors.find(entry.id) is not None:
        return submit_pull(refreshing.mirrors, entry, force=force)
    if force:
        raise NotAMirror("only a mirror can be forced to follow: this dataset is none")
    if entry.kind is DatasetKind.Derivative:
        return submit_transform(refreshing.computing, entry, reset_on_diverged=reset_on_diverged)
    when = parsed_event_time(payload.source_event_time)
    asked = poll_job.to_json(replace(payload, source_event_time=when))
    lock = str(entry.id)
    key = f"{poll_job.KIND}:{lock}:{json.dumps(asked, sort_keys=True)}"
    return refreshing.jobs.submit(JobSpec(poll_job.KIND, entry.id, asked, lock=lock, dedup_key=key))
