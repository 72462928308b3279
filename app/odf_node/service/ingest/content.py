"""Posted bodies: short ones that are in memory, others that arrive while they are read.

A file that was uploaded before, used as the body of a post by its upload token.

A post: a batch that a client wants to add to a dataset, and its job.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path

from odf_protocol.identity import DatasetAlias
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import AccountId, JobId, ObjectKey

from ..auth.access import Unauthenticated
from ..auth.actors import Actor
from ..auth.signed_urls import UploadToken
from ..http.answers import media_type_of
from ..http.bodies import LIMIT, BodyTooLong
from ..http.multipart import Spooled, UploadForm, spooled
from ..uploads.uploaded_files import (
    FileUploads,
    arrived_file,
    content_of,
    expected_upload,
    length_differs,
)
from .asked import IngestRequest


class Content:
    """A body that can be read once. Its media type may become known only while it is read."""

    def __init__(self, chunks: Iterable[bytes], media_type: str | None) -> None:
        self._chunks, self.media_type = chunks, media_type

    def arrived(self, data: Path) -> AbstractContextManager[Spooled]:
        """Receive the whole body; a long one is kept in the data folder meanwhile."""
        return spooled(data, self._chunks)


class Whole(Content):
    """A short body that is already in memory."""

    def __init__(self, body: bytes, media_type: str | None) -> None:
        super().__init__((body,), media_type)
        self._body = body

    def arrived(self, data: Path) -> AbstractContextManager[Spooled]:  # noqa: ARG002
        body = self._body
        return nullcontext(Spooled(Multihash.of(body), len(body), io.BytesIO(body)))


class FileOfForm(Content):
    """The file of a form. Its part headers, or its file name, give the media type."""

    def __init__(self, form: UploadForm, chunks: Iterable[bytes], limit: int) -> None:
        super().__init__(self._read(form, chunks, limit), None)

    def _read(self, form: UploadForm, chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
        size = 0
        for piece in form.file(chunks):
            size += len(piece)
            if size > limit:
                raise BodyTooLong(limit, LIMIT)
            yield piece
        self.media_type = media_type_of(form.content_type, form.file_name)


def uploaded_content(uploads: FileUploads, actor: Actor, text: str) -> Content:
    """Return the file of an upload token. Its media type is the declared one, else that of its
    extension.

    Raises:
        InvalidUploadToken, Unauthenticated, UploadNotFound, LengthDiffers.
    """
    token = UploadToken.parse(text)
    if actor.account is None:
        raise Unauthenticated
    expected_upload(uploads, actor.account, token)
    file, size = arrived_file(uploads, token)
    if size != token.content_length:
        raise length_differs(size, token.content_length)
    return Content(content_of(uploads, file), media_type_of(token.content_type, token.file_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A body for a dataset, with its actor and parameters."""

    actor: Actor
    dataset: DatasetAlias
    request: IngestRequest
    open: Callable[[], Content] = field(repr=False)
    """Returns the body. It is called after the actor is authorized."""
    work: Context = field(default_factory=copy_context, repr=False)
    """The context of the request: its trace, and the facts that are collected for the log."""

    @property
    def account(self) -> AccountId:
        """The account that posts, or an empty text for an anonymous actor."""
        return self.actor.account.id if self.actor.account is not None else AccountId("")

    def asked(self, content: Content) -> IngestRequest:
        """Return the request with the media type that the content has so far, in canonical form.
        Raises the same errors as `IngestRequest.canonical`."""
        return replace(self.request, media_type=content.media_type).canonical()


@dataclass(frozen=True, slots=True)
class Posted:
    """A batch with a job. `upload`, if any, must be deleted after the job has ended. `repeated`
    says that an earlier request with the same key submitted the job."""

    job: JobId
    upload: ObjectKey | None = None
    repeated: bool = False
