"""Errors that the stores may raise, apart from `HashMismatch`.

They are declared once for all stores because they are part of what these promise: every adapter
of a port raises the same error in the same situation.
"""

from __future__ import annotations

from odf_protocol.errors import BadInput, Conflict, Damaged, LimitExceeded, NotFound
from odf_protocol.identity import MAX_NAME_CHARS, DatasetAlias, DatasetId, DatasetRef, Name
from odf_protocol.multihash import Multihash

from .values import AccountId, JobId, ObjectKind


class ObjectNotFound(NotFound):
    """No object of that kind and hash in this dataset."""

    def __init__(self, kind: ObjectKind, object_hash: Multihash) -> None:
        super().__init__(
            f"there is no {kind} object {object_hash} in this dataset",
            kind=str(kind),
            hash=str(object_hash),
        )
        self.kind, self.hash = kind, object_hash


class BlockNotFound(NotFound):
    """The dataset has no block of that hash."""

    def __init__(self, block: Multihash) -> None:
        super().__init__(f"there is no block {block} in this dataset", block=str(block))
        self.block = block


class DatasetNotFound(NotFound):
    """No dataset of that id or alias."""

    def __init__(self, ref: DatasetRef | DatasetId) -> None:
        super().__init__(f"there is no dataset {ref}", dataset=str(ref))


class AliasTaken(Conflict):
    """Another dataset already has this name; names are compared case-insensitively."""

    def __init__(self, alias: DatasetAlias) -> None:
        super().__init__(f"another dataset is called {alias} already", alias=str(alias))


def name_too_long(name: Name) -> BadInput:
    """A name of a dataset or account is longer than nodes accept."""
    return BadInput(
        "NameTooLong",
        f"a name of {len(str(name))} characters; at most {MAX_NAME_CHARS} are taken",
        characters=len(str(name)),
        most=MAX_NAME_CHARS,
    )


class DatasetIdTaken(Conflict):
    """This dataset is registered already."""

    def __init__(self, dataset: DatasetId) -> None:
        super().__init__(f"dataset {dataset} is registered already", dataset_id=str(dataset))


def ref_not_found(ref: str) -> NotFound:
    """The dataset has no reference of that name."""
    return NotFound("RefNotFound", f"there is no reference {ref!r} in this dataset", ref=ref)


class RefConflict(Conflict):
    """Another writer moved the reference first; the caller should read it again and retry."""

    def __init__(self, expected: Multihash, actual: Multihash) -> None:
        super().__init__(
            f"expected head {expected}, found {actual}",
            expected=str(expected),
            actual=str(actual),
        )
        self.expected, self.actual = expected, actual


class BlockDamaged(Damaged):
    """The stored bytes of a block no longer match its hash."""

    def __init__(self, block: Multihash, reason: str) -> None:
        super().__init__(f"stored block {block} is damaged: {reason}", block=str(block))


class JobNotFound(NotFound):
    """No job of that id."""

    def __init__(self, job: JobId) -> None:
        super().__init__(f"there is no job {job}", job=str(job))


class RequestKeyReused(BadInput):
    """A different request was sent under this key before, and was answered or is in progress."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the key {key!r} was used for another request; a new request takes a new key", key=key
        )


class LeaseLost(Conflict):
    """The worker no longer has the job: another claimed it, or it was cancelled or finished."""

    def __init__(self, job: JobId, worker: str) -> None:
        super().__init__(f"job {job} is no longer held by worker {worker}", job=job, worker=worker)
        self.job = job


class AccountNotFound(NotFound):
    """No account of that id."""

    def __init__(self, account: AccountId) -> None:
        super().__init__(f"there is no account {account}", account=str(account))


def account_name_taken(name: str) -> Conflict:
    """Another account already has this name; names are compared case-insensitively."""
    return Conflict("AccountNameTaken", f"another account is called {name} already", name=name)


def token_id_taken(token: str) -> Conflict:
    """A token of that id is stored already."""
    return Conflict("TokenIdTaken", f"there is a token {token} already", token=token)


def token_not_found(token: str) -> NotFound:
    """No token of that id."""
    return NotFound("TokenNotFound", f"there is no token {token}", token=token)


def not_a_part_of_a_dataset(kind: ObjectKind) -> BadInput:
    """This kind of object is not stored in the folder of a dataset (uploads are elsewhere)."""
    return BadInput(
        "NotAPartOfADataset", f"{kind} objects are not kept in a dataset's folder", kind=str(kind)
    )


def upload_busy() -> Conflict:
    """Another client is appending to the same upload."""
    return Conflict("UploadBusy", "this object is being uploaded by somebody else; try again later")


def offset_mismatch(offset: int, actual: int) -> Conflict:
    """An upload continues at an offset other than the number of bytes received."""
    return Conflict(
        "OffsetMismatch",
        f"the upload goes on at {actual}, not at {offset}",
        offset=actual,
        given=offset,
    )


class KeyNotFound(NotFound):
    """There is nothing under this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is nothing under the key {key[:300]!r}", key=key[:300])


class KeyRefused(BadInput):
    """This store cannot have this key: it is too long, or it leads out of the store."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"the store has no key {key[:300]!r}: {reason}", key=key[:300])


def keys_not_listed(folder: str, reason: str) -> BadInput:
    """The store returns files by key but cannot list its keys."""
    return BadInput(
        "KeysNotListed",
        f"the files in {folder[:300]!r} cannot be listed: {reason}",
        key=folder[:300],
    )


class KeyedFileTooLarge(LimitExceeded):
    """The file under the key is larger than the limit for one read. The limit is in bytes."""

    def __init__(self, key: str, limit: int) -> None:
        super().__init__(f"{key[:300]} has more than {limit} bytes", key=key[:300], limit=limit)


class SwapLost(Conflict):
    """The content under the key is not the expected one; nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(f"somebody else has written {key[:300]}", key=key[:300])


def publication_name_taken(uuid: str) -> Conflict:
    """Another dataset in the store has this name, or one of the two names begins with the other."""
    return Conflict(
        "PublicationNameTaken",
        f"another dataset is published there as {uuid[:100]!r}, or by a name that one of the "
        "two begins with",
        uuid=uuid[:100],
    )
