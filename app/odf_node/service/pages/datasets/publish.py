"""The form that publishes a file: choose it, correct the proposal, publish. It needs no script.

Publish a visitor's file as a dataset: store, inspect, propose, create, post. It has no HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, TypeVar
from urllib.parse import parse_qs

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    Account,
    DatasetEntry,
    Failed,
    ObjectKind,
    UploadedFile,
    Visibility,
)

from ....proposal.columns import TYPES
from ....proposal.headers import MAX_COLUMNS
from ....proposal.options import NONE, OPTIONS, Kind
from ....proposal.proposal import Proposal
from ....proposal.sample import MEDIA_TYPES, ZIP, format_of
from ....proposal.wire import read, to_manifest
from ...auth.access import Unauthenticated, unauthorized
from ...auth.actors import ANONYMOUS, Actor
from ...auth.dataset_access import Callers
from ...auth.signed_urls import UploadToken
from ...auth.visitors import refuse_foreign, visitor
from ...datasets.datasets import (
    Authoring,
    create_prepared,
    delete_dataset,
    prepare_dataset,
)
from ...datasets.listing import parse_visibility
from ...errors import status_of, status_of_failed
from ...http.bodies import Body, small_body
from ...http.deps import part_of
from ...http.multipart import OVERHEAD_BYTES, UploadForm, spooled
from ...ingest.asked import IngestRequest
from ...ingest.content import Post, Posted, uploaded_content
from ...ingest.posts import Posts
from ...jobs.job_watch import Waiting
from ...limits.shares import Turns, caller_of
from ...readers.pool import Readers
from ...readers.tasks import LookTask
from ...settings import Settings
from ...uploads.uploaded_files import (
    FileUploads,
    arrived_file,
    content_too_large,
    expected_upload,
    may_upload,
    opened_upload,
    prepare,
    take_in,
    upload_not_found,
)
from .. import views
from ..render import (
    page,
    problem,
    redirect,
    shown,
)
from ..views import Views

PUBLISH_LOOK_BYTES = 1 << 20
"""Bytes of a file, unpacked, that the form to publish files looks at."""

Options = Mapping[str, Any]
"""Options of a proposal by their names (`odf_node/proposal/options.py`)."""


@dataclass(frozen=True)
class FilePublishing:
    """The parts of the node that publish files of visitors."""

    authoring: Authoring
    posts: Posts
    uploads: FileUploads
    waiting: Waiting
    readers: Readers
    look_bytes: int
    """Number of unpacked bytes of a file that are inspected."""

    @property
    def stores(self) -> Stores:
        return self.authoring.stores


def keep_file(
    publishing: FilePublishing, actor: Actor, form: UploadForm, chunks: Iterable[bytes]
) -> UploadToken:
    """Store the file of a form as an upload, like files that clients upload before a post.

    Raises:
        Unauthenticated, Unauthorized, ContentTooLarge, NotTheUploadForm, UnknownFormat,
        DamagedPacking, TooManyUploads.
    """
    account, uploads = _publisher(actor), publishing.uploads
    with spooled(uploads.data, _within(form.file(chunks), uploads.max_bytes)) as body:
        if not form.file_name:
            raise BadInput("NoFile", "choose a file first")
        kind = MEDIA_TYPES[format_of(form.file_name, _begin(body.chunks()))]
        token = prepare(uploads, account, form.file_name, body.size, kind)
        take_in(uploads, expected_upload(uploads, account, token), token, body.chunks())
    return token


async def look(
    publishing: FilePublishing, actor: Actor, token: UploadToken, given: Options, name: str | None
) -> Proposal:
    """Return the proposal for a stored file, by the options of a person. A reader makes it: a
    process with limits of time and memory, since a file may be anything.

    Raises:
        Unauthenticated, Unauthorized, UploadNotFound. ReadRefused: the file, or an option, is not
        usable. ShareTaken, AllTaken, ReaderGone, ReadTooSlow.
    """
    account, uploads = _publisher(actor), publishing.uploads
    file = await to_thread.run_sync(_arrived, uploads, account, token)
    task = LookTask(
        file=str(file.hash),
        file_name=token.file_name,
        given=dict(given),
        name=name,
        most=publishing.look_bytes,
    )
    answer = await publishing.readers.answer(task, _Upload(uploads, file), account.id)
    return read(b"".join([piece async for piece in answer]))


class _Upload:
    """The only object that a look at an uploaded file may request."""

    def __init__(self, uploads: FileUploads, file: UploadedFile) -> None:
        self._uploads, self._file = uploads, file

    def open_whole(self, kind: ObjectKind, name: Multihash) -> BinaryIO:
        if kind is not ObjectKind.UPLOAD or name != self._file.hash:
            raise upload_not_found()
        return opened_upload(self._uploads, self._file)

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        raise AssertionError(f"unreachable: a look requires no {kind} {wanted}")

    def open_index(self, key: str) -> BinaryIO | None:  # noqa: ARG002
        return None


def _arrived(uploads: FileUploads, account: Account, token: UploadToken) -> UploadedFile:
    expected_upload(uploads, account, token)
    return arrived_file(uploads, token)[0]


def publish_file(
    publishing: FilePublishing,
    actor: Actor,
    token: UploadToken,
    proposal: Proposal,
    visibility: Visibility,
) -> tuple[DatasetEntry, Posted]:
    """Create the dataset and submit the job that reads the file into it.

    Raises:
        The same errors as `prepare_dataset` and `post`; the dataset then does not exist.
    """
    manifest = to_manifest(proposal, token.file_name).encode()
    made = prepare_dataset(publishing.authoring, actor, manifest, visibility)
    entry, _ = create_prepared(publishing.stores, made)
    try:
        file = partial(uploaded_content, publishing.uploads, actor, str(token))
        bad_rows = proposal.on_bad_rows
        asked = IngestRequest(creates_source=True, on_bad_rows=bad_rows)
        post = Post(actor=actor, dataset=entry.alias, request=asked, open=file)
        posted = publishing.posts.take_one(post)
    except NodeError:
        give_up(publishing, actor, entry)
        raise
    return entry, posted


def give_up(publishing: FilePublishing, actor: Actor, entry: DatasetEntry) -> None:
    """Delete the dataset that was created for a file, because the file was refused."""
    delete_dataset(publishing.stores, publishing.authoring.access, actor, entry)


def _publisher(actor: Actor) -> Account:
    if actor.account is None:
        raise Unauthenticated
    if not may_upload(actor):
        raise unauthorized()
    return actor.account


def _begin(chunks: Iterable[bytes]) -> bytes:
    """Return the first piece of a file; all of it if its table of contents is at the end."""
    pieces = iter(chunks)
    begin = bytearray(next(pieces, b""))
    if begin.startswith(ZIP):
        for piece in pieces:
            begin += piece
    return bytes(begin)


def _within(chunks: Iterable[bytes], limit: int) -> Iterable[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise content_too_large(limit)
        yield chunk


PATH = "/v/publish"
MAX_FORM_BYTES = 1 << 20
MAX_FIELDS = 2 * MAX_COLUMNS + 20
FIRST_ROWS = 3
YES_NO = ("yes", "no")
Fields = Mapping[str, list[str]]
T = TypeVar("T")


def _form(given: Views, actor: Actor, request: Request) -> Response:
    if actor.account is None:
        return redirect(given, f"/v/sign-in?next={PATH}")
    return _shown(given, actor, request)


async def _look(request: Request) -> Response:
    """Receive the file, and respond with the proposal as a form."""
    given, actor = part_of(request, Views), ANONYMOUS
    publishing = part_of(request, FilePublishing)
    try:
        actor = await to_thread.run_sync(visitor_of, request)
        token = await received_file(publishing, actor, request)
        proposal = await look(publishing, actor, token, {}, None)
        shown = partial(_shown, given, actor, request, proposal=proposal, token=token)
        return await to_thread.run_sync(shown)
    except NodeError as error:
        return await to_thread.run_sync(_told, given, actor, request, error)


async def received_file(publishing: FilePublishing, actor: Actor, request: Request) -> UploadToken:
    """Store the file of the form that a request sends. Raises the same errors as `keep_file`."""
    form = UploadForm(request.headers.get("content-type", ""))
    limit = publishing.uploads.max_bytes + OVERHEAD_BYTES
    async with Body(request.receive, limit=limit) as body:
        return await in_turn(request, partial(keep_file, publishing, actor, form, body.chunks()))


async def in_turn(request: Request, work: Callable[[], T]) -> T:
    """Run the work in a thread in a turn of the account, so that slow files delay no other's."""
    files: Turns = request.app.state.files
    return await files.run(caller_of(request.scope), work)


async def _publish(request: Request) -> Response:
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
            return await to_thread.run_sync(_told, given, actor, request, error)
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
    kinds = {one.name: one.kind for one in proposal.columns}
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
        "problem": told,
        "waits": waits,
        "proposal": proposal,
        "upload": str(token) if token else "",
        "file": token.file_name if token else "",
        "most": part_of(request, Settings).max_upload_bytes,
        "types": list(TYPES),
        "merge": _one(chosen, "merge"),
        "options": _offered(chosen, proposal),
        "visibility": _one(chosen, "visibility") or "private",
        "first_rows": FIRST_ROWS,
    }
    return page("publish", content, status)


def _offered(fields: Fields, proposal: Proposal | None) -> list[dict[str, Any]]:
    """Return the options that decide how a file of the format is read, with what was given."""
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
        if option.label and proposal is not None and proposal.format in option.formats
    ]


def _told(given: Views, actor: Actor, request: Request, error: NodeError) -> Response:
    """Return a page with the error, above an empty form if the visitor is signed in."""
    if actor.account is None:
        return problem(given, actor, request, error)
    return _shown(given, actor, request, told=error.message, status=int(status_of(error)))


def visitor_of(request: Request) -> Actor:
    """Return the visitor of the request. Raises `ForeignForm`, `AnonymousRestricted`."""
    refuse_foreign(request, part_of(request, Views).public_url)
    is_open = part_of(request, Settings).allow_anonymous
    return visitor(part_of(request, Callers), request, allow_anonymous=is_open)


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


ROUTES = (
    Route(PATH, shown(_form), methods=["GET"]),
    Route(PATH, _look, methods=["POST"]),
    Route(f"{PATH}/dataset", _publish, methods=["POST"]),
)
