"""Jobs: how work that was answered 202 is getting on."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ..usecases.jobs import find_job, shown
from .answers import JsonAnswer
from .deps import ActorDep, NodeDep

router = APIRouter(tags=["jobs"])


@router.get("/jobs/{job}", summary="Status of a job, with its result or problem")
def job_status(job: str, node: NodeDep, actor: ActorDep) -> Response:
    return JsonAnswer(shown(find_job(node, actor, job)))
