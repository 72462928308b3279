"""Publish a visitor's file as a dataset: store, inspect, propose, create, post. It has no HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from anyio import to_thread

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

from ...proposal.manifest import to_manifest
from ...proposal.proposal import Proposal
from ...proposal.sample import MEDIA_TYPES, ZIP, format_of
from ...proposal.wire import read
from ..auth.access import Unauthenticated, Unauthorized
from ..auth.actors import Actor
from ..auth.upload_tokens import UploadToken
from ..datasets.datasets import Authoring, create_prepared, prepare_dataset
from ..datasets.rename_and_remove import delete_dataset
from ..http.multipart import UploadForm
from ..http.spool import spooled
from ..ingest.asked import IngestRequest
from ..ingest.post import Post, Posted
from ..ingest.posts import Posts
from ..ingest.uploaded import uploaded_content
from ..jobs.waiting import Waiting
from ..readers.pool import Readers
from ..readers.tasks import LookTask
from ..uploads.uploaded_files import (
    ContentTooLarge,
    FileUploads,
    UploadNotFound,
    arrived_file,
    expected_upload,
    may_upload,
    opened_upload,
    prepare,
    take_in,
)

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
            raise NoFile
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
            raise UploadNotFound
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
        raise Unauthorized
    return actor.account


class NoFile(BadInput):
    """The form was sent without a file."""

    def __init__(self) -> None:
        super().__init__("choose a file first")


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
            raise ContentTooLarge(limit)
        yield chunk
