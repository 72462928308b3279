"""The page that says why a row is there: a drawing to follow, and what is known of each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anyio import from_thread
from starlette.requests import Request

from odf_protocol.errors import NodeError, NotFound
from odf_storage.datasets.job_payloads import why_job
from odf_storage.datasets.job_payloads.why_job import COPIED, Cell, WhyAnswer, WhyInput, WhyStep
from odf_storage.stores.ports.values import Failed, Succeeded

from ..http.deps import part_of
from ..jobs.job_watch import Waiting
from ..pages.datasets.blocks import Visit
from ..pages.datasets.content import PagePart
from ..pages.datasets.manage import takes_rows_back
from ..pages.datasets.statistics import Drawing, lineage_drawing
from ..pages.frame.cells import cell_text
from ..pages.frame.render import rendered
from ..pages.frame.views import root_of
from .question import Provenance, WhyQuestion, submit, with_columns

WAIT_S = 5.0
"""Seconds that a page waits for the worker."""
MAX_OFFSET_CHARS = 16
DEPTH = "2"
"""Steps that the page follows: the row, and the rows that it was made of."""


def why_page(visit: Visit, request: Request) -> PagePart:
    """Return the content of the page. What cannot be answered is told on it."""
    text, root = request.query_params["why"], root_of(visit.views)
    told: dict[str, Any] = {"root": root, "url": visit.url, "offset": text[:MAX_OFFSET_CHARS]}
    told |= {"problem": None, "waits": False, "again": f"{visit.path}?why={text}"}
    told["may_take_back"] = takes_rows_back(visit.views, visit.actor, visit.entry)
    try:
        answer = _answered(visit, request, text)
        told |= {"waits": True} if answer is None else _shown(answer, root)
    except NodeError as error:
        told["problem"] = error.message
    title = f"Why is row {text[:MAX_OFFSET_CHARS]} here?"
    return PagePart(title, rendered("why", told))


def _answered(visit: Visit, request: Request, text: str) -> WhyAnswer | None:
    """Return the answer; None if the worker has not finished it."""
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_OFFSET_CHARS:
        raise NotFound("RowNotFound", "a row is named by its offset, a number")
    asked = WhyQuestion(offset=int(text), depth=DEPTH)
    parts = part_of(request, Provenance)
    job = submit(parts, visit.actor, visit.entry, asked)
    ended = from_thread.run(part_of(request, Waiting).watch.ended, job, WAIT_S)
    match None if ended is None else ended.outcome:
        case Succeeded(result=result):
            return with_columns(parts, visit.actor, visit.caller, why_job.answer_of(result), asked)
        case Failed() as failed:
            raise NotFound("RowNotFound", failed.message)
    return None


def _shown(answer: WhyAnswer, root: str) -> dict[str, Any]:
    steps = list(_steps(answer.step))
    drawing, links = _drawing(answer.step, root)
    return {
        "steps": [(step, list(_cells(step))) for step in steps],
        "drawing": drawing,
        "links": links,
        "is_cut": any(step.is_cut for step in steps),
        "block": answer.at,
    }


def _steps(step: WhyStep) -> Iterator[WhyStep]:
    yield step
    for each in step.inputs:
        yield from _steps(each)


def _cells(step: WhyStep) -> Iterator[tuple[str, str | None, str]]:
    """Yield name, value and origin of each column."""
    for name, value in step.row.values.items():
        cell = step.where.get(name)
        yield name, cell_text(value), "" if cell is None else _origin(cell)


def _origin(cell: Cell) -> str:
    """Return the columns, and what is done with them if they are not copied."""
    done = [] if cell.kind == COPIED else [cell.kind, *filter(None, [cell.expression])]
    return "; ".join(filter(None, [", ".join(cell.columns), ": ".join(done)]))


def _drawing(first: WhyStep, root: str) -> tuple[Drawing | None, dict[str, str | None]]:
    """Draw the rows from left to right, those of roots first."""
    links: dict[str, str | None] = {}
    edges: list[tuple[str, str]] = []
    for step in _steps(first):
        here = _name(step)
        links[here] = f"{root}/{step.row.alias}?why={step.row.offset}"
        for given in step.why:
            for name, link in _boxes(given, root):
                links.setdefault(name, link)
                edges.append((name, here))
    names: dict[str, str | None] = {name: name for name in links}
    return (lineage_drawing(_name(first), names, edges) if edges else None), links


def _name(step: WhyStep) -> str:
    return f"{step.row.alias} {step.row.offset}"


def _boxes(given: WhyInput, root: str) -> Iterator[tuple[str, str | None]]:
    """Yield names and links of the rows of an input; consecutive rows share a box."""
    if given.unread is not None:
        yield f"{given.dataset[-8:]}: {given.count} row(s)", None
    for one in given.rows:
        offsets = one.start if one.start == one.end else f"{one.start}–{one.end}"
        yield f"{given.alias} {offsets}", f"{root}/{given.alias}?why={one.start}"
