"""Objects that arrive in parts, and how many of them may be here in part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odf_node.protocol.errors import BadInput, LimitExceeded
from odf_node.storage.stores.ports import ObjectStore, PartialUploads
from odf_node.storage.stores.ports.errors import OffsetMismatch
from odf_node.storage.stores.ports.values import AccountId, ObjectKey

from ..auth.actors import Actor

RETRY_S = 3600


class UploadsInOneGo(BadInput):
    """Objects are not kept where parts of them can be."""


class TooManyBegun(LimitExceeded):
    """As many uploads, or bytes of them, are here in part as may be."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        message = (
            f"{what} have begun and not ended; finish some, send this object whole by PUT, or "
            "wait until those that are left alone for a day are cleared away"
        )
        super().__init__(message, limit=limit, setting=setting, retry_after_s=RETRY_S)


@dataclass(frozen=True)
class BegunUploads:
    """Where uploads go on, and how many may be here in part."""

    objects: ObjectStore
    of_dataset: int
    of_account: int
    bytes_of_account: int


def received(objects: ObjectStore, key: ObjectKey) -> int | None:
    """Bytes of an upload that broke off; None where uploads do not go on."""
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
    """Go on with an upload by `size` bytes; how many are here then.

    What may not begin, and comes whole, is taken as by PUT: nothing stays if it breaks off.

    Raises:
        TooManyBegun: it would be one more that is here in part. It is not begun then.
        UploadsInOneGo, UploadBusy, OffsetMismatch, HashMismatch.
    """
    partial = begun.objects.partial
    if partial is None:
        raise UploadsInOneGo("this node takes objects in one go: use PUT")
    here = partial.received(key)
    if offset != here:
        raise OffsetMismatch(offset, here)
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
    """Begin an upload, or go on with one. Raises `TooManyBegun`."""
    of_dataset, of_account = begun.of_dataset, begun.of_account
    most_bytes = begun.bytes_of_account

    def judge(number: int, announced: int) -> None:
        if is_new and partial.begun(key) >= of_dataset:
            what, setting = f"{of_dataset} uploads to this dataset", "MAX_BEGUN_UPLOADS"
            raise TooManyBegun(what, of_dataset, f"ODF_NODE_{setting}")
        if number >= of_account:
            what, setting = f"{of_account} uploads of your account", "MAX_BEGUN_UPLOADS_ACCOUNT"
            raise TooManyBegun(what, of_account, f"ODF_NODE_{setting}")
        if announced + total > most_bytes:
            what = f"uploads of your account with {announced} bytes, of {most_bytes} it may have,"
            raise TooManyBegun(what, most_bytes, "ODF_NODE_MAX_BEGUN_BYTES_ACCOUNT")

    account = actor.account.id if actor.account is not None else AccountId("")
    partial.claim(account, key, total, judge)
