"""A post: the rows of one job, and how to read them.

Small posts that are only appended share slices with other waiting posts: the cost of files, hashes
and blocks is then per batch rather than per post, for writers and for all readers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from odf_protocol.linked import link_columns
from odf_protocol.metadata.reading import MergeStrategyAppend
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload, upload_of
from odf_storage.stores.ports.values import Job

from ...plan.ingest import IngestPlan
from ...runtime.content import Content, Enclosed
from ...runtime.progress import JobProgress
from ..work.context import WorkerContext
from ..work.slice_files import local_object
from .run import PreparedPost, prepare_post, push_extras

SHARED_BYTES = 1 << 20
"""Limit of the unpacked bytes of posts that share slices: they are one partition, and few rows have
to wait for it."""


@dataclass(slots=True, kw_only=True)
class Post:
    """The post of a job. The time of its blocks is the job's submission, no matter when it runs."""

    job: Job
    payload: IngestPayload
    job_progress: JobProgress = field(default_factory=JobProgress)


def shares_slices(post: Post, plan: IngestPlan) -> bool:
    """Whether a post only adds rows, and its body is small enough to be stored in the job. The
    unpacked rows may still be large (`SHARED_BYTES`)."""
    return (
        post.job.spec.body is not None
        and not post.payload.dry_run
        and post.payload.expected_head is None
        and isinstance(plan.merge, MergeStrategyAppend)
        and plan.preprocess is None
        and plan.schema is not None
        and not plan.adds_columns
        and not link_columns(plan.schema)
    )


def prepare(
    dataset: Dataset, post: Post, plan: IngestPlan, context: WorkerContext, scratch: Path
) -> PreparedPost:
    """Prepare a post for the stages; `scratch` is the path of a folder for it, which does not exist
    yet.

    Raises:
        NodeError: the post cannot be read.
        JobLost: the lease of the job was lost.
    """
    post.job_progress.phase("read")
    own = replace(context, job_progress=post.job_progress)
    extras = push_extras(plan, post.payload, context.ingest.max_rejected_rows)
    content: Content
    if post.job.spec.body is None:
        content = local_object(dataset, upload_of(dataset.id, post.payload), scratch / "upload")
    else:
        content = Enclosed(post.job.spec.body)
    return prepare_post(dataset, plan, content, own, scratch, extras)
