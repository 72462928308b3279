"""Publish a visitor's file as a dataset: store, inspect, propose, create, post. It has no HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from anyio import to_thread
from starlette.requests import Request

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import (
    Account,
    DatasetEntry,
    ObjectKind,
    UploadedFile,
    Visibility,
)

from ...auth.access import Unauthenticated, unauthorized
from ...auth.actors import Actor
from ...auth.dataset_access import Callers
from ...auth.signed_urls import UploadToken
from ...auth.visitors import refuse_foreign, visitor
from ...datasets.datasets import (
    Authoring,
    create_prepared,
    delete_dataset,
    prepare_dataset,
)
from ...http.bodies import Body
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
    expected_upload,
    limited,
    may_upload,
    opened_upload,
    prepare,
    take_in,
    upload_not_found,
)
from ..frame.views import Views

if TYPE_CHECKING:
    from ....proposal.proposal import Proposal

T = TypeVar("T")
PATH = "/v/publish"
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
    from ....proposal.sample import MEDIA_TYPES, format_of  # as all of proposals, slow to load

    account, uploads = _publisher(actor), publishing.uploads
    with spooled(uploads.data, limited(form.file(chunks), uploads.max_bytes)) as body:
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
    from ....proposal.wire import read  # not needed to start

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
    from ....proposal.wire import to_manifest  # not needed to start

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
    from ....proposal.sample import ZIP  # not needed to start

    pieces = iter(chunks)
    begin = bytearray(next(pieces, b""))
    if begin.startswith(ZIP):
        for piece in pieces:
            begin += piece
    return bytes(begin)


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


def visitor_of(request: Request) -> Actor:
    """Return the visitor of the request. Raises `ForeignForm`, `AnonymousRestricted`."""
    refuse_foreign(request, part_of(request, Views).public_url)
    is_open = part_of(request, Settings).allow_anonymous
    return visitor(part_of(request, Callers), request, allow_anonymous=is_open)
