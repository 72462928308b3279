"""The page of the node's jobs: status, reason of failure, and a form to cancel open jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.stores.ports.values import Failed, Job, JobStatus

from ....client.nodes.limits import age_text, one_line
from ...auth.access import require_admin
from ...auth.actors import Actor
from ...errors import status_of
from ...http.deps import part_of
from ...jobs.jobs import (
    Jobs,
    all_jobs,
    cancel_job,
    parse_statuses,
)
from ..frame import views
from ..frame.render import (
    Form,
    page,
    posted,
    redirect,
    shown,
)
from ..frame.views import Views

JOBS = 50
FAILING = 50
"""Limit of datasets whose polls fail that the page shows."""
REASON_CHARS = 300
PATH = "/v/admin/jobs"


def _jobs(given: Views, actor: Actor, request: Request) -> Response:
    require_admin(actor)
    asked = {name: request.query_params.get(name, "")[:200] for name in ("status", "kind", "after")}
    content: dict[str, Any] = {
        **views.frame(given, actor, PATH),
        "asked": asked,
        "statuses": list(JobStatus),
        "failing": _failing(given),
    }
    try:
        statuses = parse_statuses(asked["status"])
    except BadInput as error:
        content |= {"problem": error.message, "jobs": [], "more": None}
        return page("admin_jobs", content, int(status_of(error)))
    found, more = all_jobs(
        part_of(request, Jobs),
        actor,
        statuses=statuses,
        kinds=[asked["kind"]] if asked["kind"] else None,
        after=asked["after"] or None,
        limit=JOBS,
    )
    now = datetime.now(UTC)
    aged = [
        {"problem": None, "result": None, **one, "age": age_text(one["submittedAt"], now)}
        for one in found
    ]
    said = {name: text for name, text in asked.items() if text}
    following = None if more is None else "?" + urlencode({**said, "after": more})
    return page("admin_jobs", content | {"jobs": aged, "more": following, "problem": None})


def _failing(given: Views) -> list[dict[str, Any]]:
    """Return the datasets whose last polls failed, those first that fail for the longest."""
    jobs = given.stores.jobs
    found = jobs.failing(poll_job.KIND, limit=FAILING)
    entries = given.stores.registry.find_all({each.dataset for each in found})
    last = jobs.get_all([each.last for each in found])
    return [
        {
            "dataset": given.access.shown_alias(entries[each.dataset]),
            "count": each.count,
            "since": str(each.since),
            "why": _reason(last.get(each.last)),
        }
        for each in found
        if each.dataset in entries
    ]


def _reason(job: Job | None) -> str:
    outcome = None if job is None else job.outcome
    return one_line(outcome.message, REASON_CHARS) if isinstance(outcome, Failed) else ""


def _cancel(given: Views, actor: Actor, request: Request, form: Form) -> Response:
    require_admin(actor)
    cancel_job(part_of(request, Jobs), actor, form.get("job", "")[:100])
    return redirect(given, PATH)


def _start(given: Views, _: Actor, __: Request) -> Response:
    return redirect(given, PATH)


ROUTES = (
    Route("/v/admin", shown(_start), methods=["GET"]),
    Route(PATH, shown(_jobs), methods=["GET"]),
    Route(f"{PATH}/cancel", posted(_cancel), methods=["POST"]),
)
