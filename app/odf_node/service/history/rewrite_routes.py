"""POST …/compact, …/reset, …/set-watermark: changes of a dataset's history by maintainers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_storage.datasets.rewrite.compact import HistoryReceipt, to_json

from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, BaseDep, MaintainedDep, WritableDep, wired
from ..http.parameters import NO_BODY
from ..jobs.job_watch import WaitingDep, job_answer
from . import rewrite as history
from .rewrite import CompactRequest, Rewriting

MOST = 2**63 - 1
RewritingDep = Annotated[Rewriting, Depends(wired(Rewriting))]


def add_history_routes(router: APIRouter, prefix: str) -> None:
    """Add the routes below the dataset addresses."""
    for path, handler, summary in (
        ("/compact", compact, "Join small slices, or keep metadata only"),
        ("/reset", reset, "Move the head back to an earlier block"),
        ("/set-watermark", set_watermark, "Set the watermark of a root"),
    ):
        router.post(prefix + path, summary=summary, tags=["history"], dependencies=NO_BODY)(handler)


async def compact(
    rewriting: RewritingDep,
    waiting: WaitingDep,
    actor: ActorDep,
    entry: MaintainedDep,
    base: BaseDep,
    max_slice_size: Annotated[int | None, Query(alias="maxSliceSize", ge=1, le=MOST)] = None,
    max_slice_records: Annotated[int | None, Query(alias="maxSliceRecords", ge=1, le=MOST)] = None,
    keep_metadata_only: Annotated[bool, Query(alias="keepMetadataOnly")] = False,
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Return the receipt, or 202 with the job if merging takes too long."""
    request = CompactRequest(
        max_slice_size=max_slice_size,
        max_slice_records=max_slice_records,
        keep_metadata_only=keep_metadata_only,
        dry_run=dry_run,
    )
    done = await run_in_threadpool(history.compact_dataset, rewriting, actor, entry, request)
    if isinstance(done, HistoryReceipt):
        return JsonAnswer(to_json(done))
    return await job_answer(waiting, done, base, prefer)


def reset(
    rewriting: RewritingDep,
    actor: ActorDep,
    entry: MaintainedDep,
    block: Annotated[str | None, Query(max_length=200)] = None,
    old_head: Annotated[str | None, Query(alias="oldHead", max_length=200)] = None,
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
) -> Response:
    """Move the head back to a block; without one, to the Seed."""
    done = history.reset_dataset(
        rewriting, actor, entry, block=block, old_head=old_head, dry_run=dry_run
    )
    return JsonAnswer(to_json(done))


def set_watermark(
    rewriting: RewritingDep,
    actor: ActorDep,
    entry: WritableDep,
    watermark: Annotated[str, Query(max_length=100)],
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
) -> Response:
    """Set the watermark; a value that is not later than the current one changes nothing."""
    done = history.set_watermark(rewriting, actor, entry, watermark, dry_run=dry_run)
    return JsonAnswer(to_json(done))
