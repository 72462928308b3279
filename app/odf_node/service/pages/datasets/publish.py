"""The form that publishes a file: choose it, correct the proposal, publish. It needs no script.

It is loaded with the first request for it, as proposals are slow to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from odf_protocol.errors import BadInput, NodeError
from odf_storage.stores.ports.values import (
    Failed,
    Visibility,
)

from ....proposal.columns import TYPES
from ....proposal.headers import MAX_COLUMNS
from ....proposal.options import NONE, OPTIONS, Kind, in_form
from ....proposal.proposal import Proposal
from ....proposal.sample import MEDIA_TYPES
from ...auth.actors import ANONYMOUS, Actor
from ...auth.signed_urls import UploadToken
from ...datasets.listing import parse_visibility
from ...errors import status_of, status_of_failed
from ...http.bodies import small_body
from ...http.deps import part_of
from ...readers.pool import ReadRefused
from ...settings import Settings
from ..frame import views
from ..frame.render import page, problem, redirect
from ..frame.views import Views
from .files import (
    PATH,
    FilePublishing,
    give_up,
    in_turn,
    look,
    publish_file,
    received_file,
    visitor_of,
)

MAX_FORM_BYTES = 1 << 20
MAX_FIELDS = 2 * MAX_COLUMNS + 20
FIRST_ROWS = 3
YES_NO = ("yes", "no")
Fields = Mapping[str, list[str]]


def form(given: Views, actor: Actor, request: Request) -> Response:
    if actor.account is None:
        return redirect(given, f"/v/sign-in?next={PATH}")
    return _shown(given, actor, request)


async def looked(request: Request) -> Response:
    """Receive the file, and respond with the proposal as a form."""
    given, actor = part_of(request, Views), ANONYMOUS
    publishing, token = part_of(request, FilePublishing), None
    try:
        actor = await to_thread.run_sync(visitor_of, request)
        token = await received_file(publishing, actor, request)
        proposal = await look(publishing, actor, token, {}, None)
        shown = partial(_shown, given, actor, request, proposal=proposal, token=token)
        return await to_thread.run_sync(shown)
    except NodeError as error:
        return await to_thread.run_sync(_told, given, actor, request, error, token)


async def published(request: Request) -> Response:
    """Receive the corrected proposal: show it again, or create the dataset and post the file."""
    given, actor = part_of(request, Views), ANONYMOUS
    try:
        actor = await to_thread.run_sync(visitor_of, request)
        fields = _fields(await small_body(request, MAX_FORM_BYTES))
        token = UploadToken.parse(_one(fields, "upload"))
    except NodeError as error:
        return _told(given, actor, request, error)
    publishing = part_of(request, FilePublishing)
    proposal, shown = None, partial(_shown, given, actor, request, token=token, fields=fields)
    try:
        proposal = await look(publishing, actor, token, _reading(fields), None)
        asked, name = _choices(fields, proposal), _one(fields, "name") or None
        proposal = await look(publishing, actor, token, asked, name)
        if _one(fields, "do") != "publish":
            return await to_thread.run_sync(partial(shown, proposal=proposal))
        proposal.check_decided()
        visibility = parse_visibility(_one(fields, "visibility") or Visibility.PRIVATE)
        work = partial(publish_file, publishing, actor, token, proposal, visibility)
        entry, posted = await in_turn(request, work)
    except NodeError as error:
        if proposal is None:
            return await to_thread.run_sync(_told, given, actor, request, error, token, fields)
        status = int(status_of(error))
        problem_shown = partial(shown, proposal=proposal, told=error.message, status=status)
        return await to_thread.run_sync(problem_shown)
    ended = await publishing.posts.ended(posted, publishing.waiting, publishing.waiting.most_s)
    path = "/" + given.access.shown_alias(entry)
    if ended is None:
        return _shown(given, actor, request, waits=path, status=202)
    if not isinstance(ended.outcome, Failed):
        return redirect(given, path)
    await to_thread.run_sync(give_up, publishing, actor, entry)
    failed = ended.outcome
    told = f"{failed.message}. Nothing was published."
    return _shown(
        given, actor, request, proposal=proposal, token=token, told=told, fields=fields,
        status=int(status_of_failed(failed)),
    )  # fmt: skip


def _reading(fields: Fields) -> dict[str, Any]:
    """Return the options that decide how the file splits into columns and rows."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        texts = [text for text in fields.get(option.name, ()) if text]
        if option.label and texts:
            found[option.name] = texts if option.kind is Kind.WORDS else texts[0]
    return found


def _choices(fields: Fields, proposal: Proposal) -> dict[str, Any]:
    """Return all options in the form, for the columns that it shows."""
    names = [one.name for one in proposal.columns]
    found = _reading(fields)
    found["merge"] = _one(fields, "merge") or None
    found["description"] = _one(fields, "description")
    if _one(fields, "columns") != str(len(names)):  # the form shows other columns
        return found
    kinds = {one.name: None if one.is_open else one.kind for one in proposal.columns}
    found["types"] = {
        name: kind
        for at, name in enumerate(names)
        if (kind := _one(fields, f"type.{at}")) in TYPES and kind != kinds[name]
    }
    found["key"] = [name for at, name in enumerate(names) if str(at) in fields.get("key", ())]
    at = _one(fields, "event_time")
    is_column = at.isascii() and at.isdecimal() and len(at) < 9 and int(at) < len(names)
    found["event_time"] = names[int(at)] if is_column else NONE
    return found


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
    content = {
        **views.frame(given, actor, PATH),
        "problem": told if told is None else in_form(told),
        "waits": waits,
        "proposal": proposal if proposal is None else _in_form(proposal),
        "upload": str(token) if token else "",
        "file": token.file_name if token else "",
        "most": part_of(request, Settings).max_upload_bytes,
        "types": list(TYPES),
        "merge": _one(chosen, "merge"),
        "options": _offered(chosen, proposal, token),
        "visibility": _one(chosen, "visibility") or "private",
        "first_rows": FIRST_ROWS,
    }
    return page("publish", content, status)


def _in_form(proposal: Proposal) -> Proposal:
    """Return the proposal with remarks that name the fields of the form."""
    return replace(
        proposal,
        notes=tuple(map(in_form, proposal.notes)),
        questions=tuple(map(in_form, proposal.questions)),
        columns=tuple(replace(one, note=in_form(one.note)) for one in proposal.columns),
    )


def _offered(
    fields: Fields, proposal: Proposal | None, token: UploadToken | None
) -> list[dict[str, Any]]:
    """Return the options that decide how a file of the format is read, with what was given. The
    format is that of the proposal, or that of the upload while the file cannot be read."""
    kind = token.content_type if token else None
    by_kind = {one for one in MEDIA_TYPES if MEDIA_TYPES[one] == kind}
    formats = {proposal.format} if proposal else by_kind
    return [
        {
            "name": option.name,
            "kind": option.kind.value,
            "label": option.label,
            "about": option.about,
            "choices": option.values or YES_NO,
            "given": [text for text in fields.get(option.name, ()) if text],
        }
        for option in OPTIONS
        if option.label and formats & option.formats
    ]


def _told(
    given: Views,
    actor: Actor,
    request: Request,
    error: NodeError,
    token: UploadToken | None = None,
    fields: Fields | None = None,
) -> Response:
    """Return a page with the error, above a form if the visitor is signed in: for another file, or
    for how this one is read if it cannot be read as it is."""
    if actor.account is None:
        return problem(given, actor, request, error)
    file = token if isinstance(error, ReadRefused) else None
    status, told = int(status_of(error)), error.message
    return _shown(given, actor, request, token=file, told=told, fields=fields, status=status)


def _fields(raw: bytes) -> Fields:
    """Parse the fields of a form. Raises `MalformedForm`."""
    try:
        return parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise BadInput(
            "MalformedForm", f"the body has to be a form of {MAX_FIELDS} fields at most"
        ) from None


def _one(fields: Fields, name: str) -> str:
    return fields.get(name, [""])[0]
