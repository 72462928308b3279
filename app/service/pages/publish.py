"""The form that publishes a file: choose it, correct the proposal, publish. It needs no script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_node.protocol.errors import BadInput, NodeError
from odf_node.storage.stores.ports.values import DatasetEntry, Failed, Visibility

from ...proposal.columns import TYPES, DateOrder
from ...proposal.proposal import MERGES, Choices, Proposal
from ...proposal.records import MAX_COLUMNS
from ..auth.actors import ANONYMOUS, Actor
from ..auth.callers import Callers
from ..auth.upload_tokens import UploadToken
from ..datasets.access import parse_visibility
from ..errors import status_of, status_of_failed
from ..http.bodies import Body, MalformedForm, small_body
from ..http.deps import part_of
from ..http.multipart import OVERHEAD_BYTES, UploadForm
from ..limits.shares import Turns, caller_of
from ..settings import Settings
from . import publishing as usecase
from . import views
from .publishing import FilePublishing
from .render import page
from .showing import problem, redirect, shown
from .views import Views
from .visitors import refuse_foreign, visitor

PATH = "/v/publish"
MAX_FORM_BYTES = 1 << 20
MAX_FIELDS = 2 * MAX_COLUMNS + 20
FIRST_ROWS = 3
Fields = Mapping[str, list[str]]
T = TypeVar("T")


class QuestionOpen(BadInput):
    """The proposal has an open question that neither the file nor the visitor has decided."""


def _form(given: Views, actor: Actor, request: Request) -> Response:
    if actor.account is None:
        return redirect(given, f"/v/sign-in?next={PATH}")
    return _shown(given, actor, request)


async def _look(request: Request) -> Response:
    """Receive the file, and respond with the proposal as a form."""
    given, actor = part_of(request, Views), ANONYMOUS
    publishing = part_of(request, FilePublishing)
    try:
        actor = await to_thread.run_sync(_visitor, request)
        form = UploadForm(request.headers.get("content-type", ""))
        limit = publishing.uploads.max_bytes + OVERHEAD_BYTES
        async with Body(request.receive, limit=limit) as body:
            work = partial(usecase.keep_file, publishing, actor, form, body.chunks())
            token = await _in_turn(request, work)
        work_on = partial(_proposed, publishing, given, actor, request, token)
        return await _in_turn(request, work_on)
    except NodeError as error:
        return _told(given, actor, request, error)


async def _in_turn(request: Request, work: Callable[[], T]) -> T:
    """Run the work in a thread in a turn of the account, so that slow files delay no other's."""
    files: Turns = request.app.state.files
    return await files.run(caller_of(request.scope), work)


def _proposed(
    publishing: FilePublishing, given: Views, actor: Actor, request: Request, token: UploadToken
) -> Response:
    proposal = usecase.look(publishing, actor, token, Choices())
    return _shown(given, actor, request, proposal=proposal, token=token)


async def _publish(request: Request) -> Response:
    """Receive the corrected proposal: show it again, or create the dataset and post the file."""
    given, actor = part_of(request, Views), ANONYMOUS
    try:
        actor = await to_thread.run_sync(_visitor, request)
        fields = _fields(await small_body(request, MAX_FORM_BYTES))
        token = UploadToken.parse(_one(fields, "upload"))
    except NodeError as error:
        return _told(given, actor, request, error)
    publishing = part_of(request, FilePublishing)
    work = partial(_made, publishing, given, actor, request, token, fields)
    found = await _in_turn(request, work)
    if isinstance(found, Response):
        return found
    entry, posted, proposal = found
    ended = await publishing.waiting.watch.ended(posted.job, publishing.waiting.most_s)
    path = "/" + given.access.shown_alias(entry)
    if ended is None:
        return _shown(given, actor, request, waits=path, status=202)
    if posted.upload is not None:
        await to_thread.run_sync(publishing.posts.uploads.done_with, posted.upload)
    if not isinstance(ended.outcome, Failed):
        return redirect(given, path)
    await to_thread.run_sync(usecase.give_up, publishing, actor, entry)
    failed = ended.outcome
    told = f"{failed.message}. Nothing was published."
    return _shown(
        given, actor, request, proposal=proposal, token=token, told=told, fields=fields,
        status=int(status_of_failed(failed)),
    )  # fmt: skip


def _made(
    publishing: FilePublishing,
    given: Views,
    actor: Actor,
    request: Request,
    token: UploadToken,
    fields: Fields,
) -> Response | tuple[DatasetEntry, Any, Proposal]:
    """Return the dataset, the job of the post and the proposal; or the form if it needs changes."""
    proposal = None
    try:
        proposal = usecase.look(publishing, actor, token, _reading(fields))
        asked = _choices(fields, proposal)
        proposal = usecase.look(publishing, actor, token, usecase.named_after(asked, proposal))
        if _one(fields, "do") != "publish":
            return _shown(given, actor, request, proposal=proposal, token=token, fields=fields)
        if proposal.questions:
            raise QuestionOpen("; ".join(proposal.questions))
        visibility = parse_visibility(_one(fields, "visibility") or Visibility.PRIVATE)
        entry, posted = usecase.publish_file(publishing, actor, token, proposal, visibility)
        return entry, posted, proposal
    except NodeError as error:
        if proposal is None:
            return _told(given, actor, request, error)
        return _shown(
            given, actor, request, proposal=proposal, token=token, told=error.message,
            fields=fields, status=int(status_of(error)),
        )  # fmt: skip


def _reading(fields: Fields) -> Choices:
    """Return the choices that decide how the file splits into columns."""
    separator = _one(fields, "separator")
    return Choices(
        separator="\t" if separator == "tab" else separator[:1] or None,
        header=_one(fields, "header") == "yes" if "header_shown" in fields else None,
    )


def _choices(fields: Fields, proposal: Proposal) -> Choices:
    """Return the choices in the form, for the columns that it shows."""
    names = [one.name for one in proposal.columns]
    reading, order = _reading(fields), _one(fields, "date_order")
    shown = _one(fields, "columns") == str(len(names))  # otherwise the form shows other columns
    types = {
        name: kind
        for at, name in enumerate(names)
        if shown and (kind := _one(fields, f"type.{at}")) in TYPES
    }
    key = tuple(name for at, name in enumerate(names) if str(at) in fields.get("key", ()))
    event_time = _one(fields, "event_time")
    timed = (
        names[int(event_time)] if event_time.isdecimal() and int(event_time) < len(names) else ""
    )
    return Choices(
        name=_one(fields, "name") or None,
        types=types,
        key=key if shown else None,
        event_time=timed if shown else None,
        merge=_one(fields, "merge") or None,
        date_order=DateOrder(order) if order in tuple(DateOrder) else None,
        separator=reading.separator,
        header=reading.header,
        description=" ".join(_one(fields, "description").split()) or None,
    )


def _shown(
    given: Views,
    actor: Actor,
    request: Request,
    *,
    proposal: Proposal | None = None,
    token: UploadToken | None = None,
    told: str | None = None,
    waits: str | None = None,
    fields: Fields | None = None,
    status: int = 200,
) -> Response:
    chosen = fields or {}
    merge = _one(chosen, "merge")
    content = {
        **views.frame(given, actor, PATH),
        "problem": told,
        "waits": waits,
        "proposal": proposal,
        "upload": str(token) if token else "",
        "file": token.file_name if token else "",
        "most": part_of(request, Settings).max_upload_bytes,
        "types": list(TYPES),
        "merges": MERGES,
        "merge": merge,
        "separator": _one(chosen, "separator"),
        "date_order": _one(chosen, "date_order"),
        "visibility": _one(chosen, "visibility") or "private",
        "first_rows": FIRST_ROWS,
    }
    return page("publish", content, status)


def _told(given: Views, actor: Actor, request: Request, error: NodeError) -> Response:
    """Return a page with the error, above an empty form if the visitor is signed in."""
    if actor.account is None:
        return problem(given, actor, request, error)
    return _shown(given, actor, request, told=error.message, status=int(status_of(error)))


def _visitor(request: Request) -> Actor:
    """Return the visitor of the request. Raises `ForeignForm`, `AnonymousRestricted`."""
    refuse_foreign(request, part_of(request, Views).public_url)
    is_open = part_of(request, Settings).allow_anonymous
    return visitor(part_of(request, Callers), request, allow_anonymous=is_open)


def _fields(raw: bytes) -> Fields:
    """Parse the fields of a form. Raises `MalformedForm`."""
    try:
        return parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise MalformedForm(f"the body has to be a form of {MAX_FIELDS} fields at most") from None


def _one(fields: Fields, name: str) -> str:
    return fields.get(name, [""])[0]


ROUTES = (
    Route(PATH, shown(_form), methods=["GET"]),
    Route(PATH, _look, methods=["POST"]),
    Route(f"{PATH}/dataset", _publish, methods=["POST"]),
)
