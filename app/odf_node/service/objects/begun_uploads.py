"""Uploads of objects in parts, and the limits of uploads that are not complete yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odf_protocol.errors import BadInput, LimitExceeded
from odf_storage.stores.ports import ObjectStore, PartialUploads
from odf_storage.stores.ports.errors import offset_mismatch
from odf_storage.stores.ports.values import AccountId, ObjectKey

from ..auth.actors import Actor

MAX_BEGUN_UPLOADS_ACCOUNT = 300
"""Most objects, of all datasets, of which one account has uploaded a part and not the rest; more
are answered 429."""

MAX_BEGUN_UPLOADS = 100
"""Most objects of one dataset, slices and checkpoints apart, of which a part was uploaded and not
the rest; more are answered 429. After a day without a further part one is cleared away."""

RETRY_S = 3600


class TooManyBegun(LimitExceeded):
    """A limit of incomplete uploads, or of their bytes, is reached."""

    def __init__(
        self, what: str, limit: int, setting: str | None = None, unit: str | None = None
    ) -> None:
        message = (
            f"{what} have begun and not ended; finish some, send this object whole by PUT, or "
            "wait until those that are left alone for a day are cleared away"
        )
        super().__init__(message, limit=limit, setting=setting, unit=unit, retry_after_s=RETRY_S)


@dataclass(frozen=True)
class BegunUploads:
    """The store that resumes uploads, and the limits of incomplete uploads."""

    objects: ObjectStore
    of_dataset: int
    of_account: int
    bytes_of_account: int


def received(objects: ObjectStore, key: ObjectKey) -> int | None:
    """Return how many bytes of an incomplete upload are stored; None if the store cannot resume."""
    partial = objects.partial
    return None if partial is None else partial.received(key)


def append_object(
    begun: BegunUploads,
    actor: Actor,
    key: ObjectKey,
    offset: int,
    chunks: Iterable[bytes],
    *,
    size: int,
    total: int,
) -> int:
    """Append `size` bytes to an upload. Return how many bytes are stored afterwards.

    A whole object is stored as by PUT if a limit does not allow another incomplete upload:
    nothing stays if its transfer breaks off.

    Raises:
        TooManyBegun: the upload would exceed a limit of incomplete uploads; it is not begun.
        UploadsInOneGo, UploadBusy, OffsetMismatch, HashMismatch.
    """
    partial = begun.objects.partial
    if partial is None:
        raise BadInput("UploadsInOneGo", "this node takes objects in one go: use PUT")
    here = partial.received(key)
    if offset != here:
        raise offset_mismatch(offset, here)
    try:
        _claim(begun, partial, actor, key, total, is_new=here == 0)
    except TooManyBegun:
        if size < total:
            raise
        return begun.objects.put(key, chunks).size
    return partial.append(key, offset, chunks, total=total)


def _claim(
    begun: BegunUploads,
    partial: PartialUploads,
    actor: Actor,
    key: ObjectKey,
    total: int,
    *,
    is_new: bool,
) -> None:
    """Register an upload that begins or continues. Raises `TooManyBegun`."""
    of_dataset, of_account = begun.of_dataset, begun.of_account
    most_bytes = begun.bytes_of_account

    def judge(number: int, announced: int) -> None:
        if is_new and partial.begun(key) >= of_dataset:
            raise TooManyBegun(f"{of_dataset} uploads to this dataset", of_dataset)
        if number >= of_account:
            raise TooManyBegun(f"{of_account} uploads of your account", of_account)
        if announced + total > most_bytes:
            what = f"uploads of your account with {announced} bytes, of {most_bytes} it may have,"
            setting = "ODF_NODE_MAX_BEGUN_BYTES_ACCOUNT"
            raise TooManyBegun(what, most_bytes, setting, "content-bytes")

    account = actor.account.id if actor.account is not None else AccountId("")
    partial.claim(account, key, total, judge)
