"""Publish a visitor's file as a dataset: store, inspect, propose, create, post. It has no HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from odf_node.protocol.errors import BadInput, NodeError
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.values import Account, DatasetEntry, Visibility

from ...proposal.manifest import to_manifest
from ...proposal.proposal import Choices, Proposal, propose
from ...proposal.sample import EVERYTHING_FIRST, MEDIA_TYPES, Sample, sample_of
from ..auth.access import Unauthenticated, Unauthorized
from ..auth.actors import Actor
from ..auth.upload_tokens import UploadToken
from ..datasets.datasets import Authoring, create_prepared, prepare_dataset
from ..datasets.rename_and_remove import delete_dataset
from ..http.multipart import UploadForm
from ..http.spool import Spooled, spooled
from ..ingest.asked import IngestRequest
from ..ingest.post import Post, Posted
from ..ingest.posts import Posts
from ..ingest.uploaded import uploaded_content
from ..jobs.waiting import Waiting
from ..uploads.uploaded_files import (
    ContentTooLarge,
    FileUploads,
    arrived_file,
    content_of,
    expected_upload,
    may_upload,
    prepare,
    take_in,
)


@dataclass(frozen=True)
class FilePublishing:
    """The parts of the node that publish files of visitors."""

    authoring: Authoring
    posts: Posts
    uploads: FileUploads
    waiting: Waiting
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
        sample = _sample(form.file_name, body, publishing.look_bytes)
        kind = MEDIA_TYPES[sample.format]
        token = prepare(uploads, account, form.file_name, body.size, kind)
        take_in(uploads, expected_upload(uploads, account, token), token, body.chunks())
    return token


def look(
    publishing: FilePublishing, actor: Actor, token: UploadToken, choices: Choices
) -> Proposal:
    """Return the proposal for a stored file.

    Raises:
        Unauthenticated, Unauthorized, UploadNotFound, and the same errors as `sample_of` and
        `propose`.
    """
    account, uploads = _publisher(actor), publishing.uploads
    expected_upload(uploads, account, token)
    file, size = arrived_file(uploads, token)
    begin = _begin(content_of(uploads, file), publishing.look_bytes)
    sample = sample_of(
        token.file_name, begin, is_whole=len(begin) >= size, most=publishing.look_bytes
    )
    return propose(sample, choices)


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
        asked = IngestRequest(creates_source=True)
        post = Post(actor=actor, dataset=entry.alias, request=asked, open=file)
        posted = publishing.posts.take_one(post)
    except NodeError:
        give_up(publishing, actor, entry)
        raise
    return entry, posted


def give_up(publishing: FilePublishing, actor: Actor, entry: DatasetEntry) -> None:
    """Delete the dataset that was created for a file, because the file was refused."""
    delete_dataset(publishing.stores, publishing.authoring.access, actor, entry)


def named_after(choices: Choices, proposal: Proposal) -> Choices:
    """Return the choices without the types that the form repeats as proposed."""
    known = {one.name: one.kind for one in proposal.columns}
    changed = {name: kind for name, kind in choices.types.items() if known.get(name) != kind}
    return replace(choices, types=changed)


def _publisher(actor: Actor) -> Account:
    if actor.account is None:
        raise Unauthenticated
    if not may_upload(actor):
        raise Unauthorized
    return actor.account


def _sample(name: str, body: Spooled, most: int) -> Sample:
    if not name:
        raise NoFile
    begin = _begin(body.chunks(), most)
    return sample_of(name, begin, is_whole=len(begin) >= body.size, most=most)


class NoFile(BadInput):
    """The form was sent without a file."""

    def __init__(self) -> None:
        super().__init__("choose a file first")


def _begin(chunks: Iterable[bytes], most: int) -> bytes:
    """Return the beginning of a file; all of it if its table of contents is at the end."""
    pieces = iter(chunks)
    begin = bytearray(next(pieces, b""))
    is_archive = begin.startswith(EVERYTHING_FIRST)
    for piece in pieces:
        if len(begin) >= most and not is_archive:
            break
        begin += piece
    return bytes(begin)


def _within(chunks: Iterable[bytes], limit: int) -> Iterable[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise ContentTooLarge(limit)
        yield chunk
