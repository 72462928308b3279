"""Files uploaded before they are ingested: announce, receive, serve and remove them.

The bytes are an `upload` object below the id of the account. The index records the account of each
upload, so that a forged token gives no access.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odf_protocol.errors import BadInput, Conflict, LimitExceeded, NotFound
from odf_protocol.identity import DID_ODF, DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.opening import open_hashed
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock, Random
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    ObjectKey,
    ObjectKind,
    Scope,
    UploadedFile,
)

from ..auth.access import unauthorized
from ..auth.actors import Actor
from ..auth.signed_urls import UploadToken
from ..http.multipart import READ_BYTES, spooled

UPLOAD_KEEP_S = 86_400
"""Seconds an uploaded file is kept before it is cleared away."""

MAX_UPLOADS = 1000
"""Most files one account may have uploaded at a time."""

MAX_FILE_NAME_CHARS = 255
MAX_CONTENT_TYPE_CHARS = 200
SWEEP_PAGE = 100
PUT_ATTEMPTS = 3


def content_too_large(limit: int) -> BadInput:
    """The file is larger than the limit."""
    return BadInput(
        "ContentTooLarge", "Content too large", limit=limit, setting="ODF_NODE_MAX_UPLOAD_BYTES"
    )


def length_differs(actual: int, declared: int) -> BadInput:
    """The file does not have the announced length."""
    return BadInput(
        "LengthDiffers",
        f"Actual content length {actual} does not match the initially declared length {declared}",
        actual=actual,
        declared=declared,
    )


def upload_not_found() -> NotFound:
    """The upload does not exist, or its file has not arrived or is already removed."""
    return NotFound("UploadNotFound", "Uploaded file not found on the server")


@dataclass(frozen=True)
class FileUploads:
    """The stores of uploaded files, and the limits of size, number and age."""

    stores: Stores
    data: Path
    """The folder in which request bodies are spooled."""
    max_bytes: int
    max_per_account: int
    keep_s: int
    clock: Clock
    random: Random


def prepare(
    uploads: FileUploads, account: Account, file_name: str, length: int, content_type: str | None
) -> UploadToken:
    """Announce a file. Return the token with which to upload it.

    Raises:
        ContentTooLarge, InvalidFileName, TooManyUploads.
        QuotaExceeded: no row of the file could be stored.
    """
    if length > uploads.max_bytes:
        raise content_too_large(uploads.max_bytes)
    uploads.stores.quotas.require_room(account.name.lower())
    if not file_name.isprintable() or not 0 < len(file_name) <= MAX_FILE_NAME_CHARS:
        raise BadInput(
            "InvalidFileName", f"a file name has 1 to {MAX_FILE_NAME_CHARS} printable characters"
        )
    if uploads.stores.files.count(account.id) >= uploads.max_per_account:
        raise LimitExceeded(
            "TooManyUploads",
            f"an account may have {uploads.max_per_account} uploaded files at a time",
            limit=uploads.max_per_account,
        )
    token = UploadToken(
        upload_id=uuid.UUID(bytes=uploads.random(16), version=4).hex,
        file_name=file_name,
        owner_account_id=account.id.removeprefix(DID_ODF),
        content_length=length,
        content_type=content_type or None,
    )
    uploads.stores.files.put(
        UploadedFile(
            id=token.upload_id,
            account=account.id,
            file_name=file_name,
            content_type=token.content_type,
            created_at=uploads.clock(),
        )
    )
    return token


def may_upload(actor: Actor) -> bool:
    """Return whether the actor's token allows uploads."""
    return actor.may(Scope.WRITE) or actor.may(Scope.CREATE)


def expected_upload(uploads: FileUploads, account: Account, token: UploadToken) -> UploadedFile:
    """Return the announced file of a token.

    Raises:
        Unauthorized: the upload is of another account. ContentTooLarge, UploadNotFound.
    """
    if token.owner_account_id != account.id.removeprefix(DID_ODF):
        raise unauthorized()
    if token.content_length > uploads.max_bytes:
        raise content_too_large(uploads.max_bytes)
    file = uploads.stores.files.find(token.upload_id)
    if file is None or _is_over(uploads, file):
        raise upload_not_found()
    if file.account != account.id:
        raise unauthorized()
    return file


def take_in(
    uploads: FileUploads, file: UploadedFile, token: UploadToken, chunks: Iterable[bytes]
) -> None:
    """Store the announced file; storing the same one again is harmless.

    Raises:
        ContentTooLarge, LengthDiffers, UploadIsOver, UploadNotFound.
    """
    with spooled(uploads.data, limited(chunks, uploads.max_bytes)) as body:
        if body.size != token.content_length:
            raise length_differs(body.size, token.content_length)
        key = _key(file.account, body.hash)
        for _ in range(PUT_ATTEMPTS):
            uploads.stores.objects.put(key, body.chunks())
            known = uploads.stores.files.arrived(file.id, body.hash, body.size)
            if known is None or known.hash != body.hash:
                _drop(uploads, file.account, body.hash)
                if known is None:
                    raise upload_not_found()
                raise Conflict(
                    "UploadIsOver", "another file was uploaded with this token; prepare a new one"
                )
            if uploads.stores.objects.stat(key) is not None:
                return  # otherwise a sweep of an older upload has removed it


def _drop(uploads: FileUploads, account: AccountId, content: Multihash) -> None:
    """Delete the object if no upload of the account has this content."""
    if not uploads.stores.files.has_content(account, content):
        uploads.stores.objects.delete(_key(account, content))


def limited(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Pass the pieces of a file on. Raises `ContentTooLarge` behind `limit` bytes."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise content_too_large(limit)
        yield chunk


def arrived_file(uploads: FileUploads, token: UploadToken) -> tuple[UploadedFile, int]:
    """Return the file of a token and its size, for any caller that knows the token.

    Raises:
        UploadNotFound.
    """
    file = uploads.stores.files.find(token.upload_id)
    if file is None or file.hash is None or file.size is None or _is_over(uploads, file):
        raise upload_not_found()
    if file.account.removeprefix(DID_ODF) != token.owner_account_id:
        raise upload_not_found()
    if uploads.stores.objects.stat(_key(file.account, file.hash)) is None:
        raise upload_not_found()
    return file, file.size


def opened_upload(uploads: FileUploads, file: UploadedFile) -> BinaryIO:
    """Open an arrived file, whose hash is checked. Raises `UploadNotFound`."""
    if file.hash is None:
        raise upload_not_found()
    try:
        return open_hashed(uploads.stores, _key(file.account, file.hash))
    except ObjectNotFound:
        raise upload_not_found() from None


def content_of(uploads: FileUploads, file: UploadedFile) -> Iterator[bytes]:
    """Yield the bytes of an arrived file. Raises `UploadNotFound` at the first iteration."""
    with opened_upload(uploads, file) as stream:
        yield from iter(lambda: stream.read(READ_BYTES), b"")


def clear_away(uploads: FileUploads) -> int:
    """Remove expired files. Return their number."""
    gone = 0
    while page := uploads.stores.files.oldest(before=_kept_since(uploads), limit=SWEEP_PAGE):
        for file in page:
            uploads.stores.files.remove(file.id)
            if file.hash is not None:
                _drop(uploads, file.account, file.hash)
        gone += len(page)
    return gone


def _is_over(uploads: FileUploads, file: UploadedFile) -> bool:
    """Return whether the file has expired, even if it is not removed yet."""
    return file.created_at < _kept_since(uploads)


def _kept_since(uploads: FileUploads) -> Instant:
    return Instant(uploads.clock().ns - uploads.keep_s * NANOS)


def _key(account: AccountId, content: Multihash) -> ObjectKey:
    """Return the key of the object; the account's id takes the place of a dataset's id in it."""
    return ObjectKey(DatasetId.parse(account), ObjectKind.UPLOAD, content)
