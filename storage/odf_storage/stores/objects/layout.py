"""The layout of a store: the only module that turns keys into relative paths.

    <store>/
    ├─ datasets/
    │  └─ fed01…/                 base16 multibase of the dataset's id
    │     ├─ blocks/f1620…        one file per block, its bytes as received
    │     ├─ data/f1620…          Parquet slices, named by physical hash, no extension
    │     ├─ checkpoints/f1620…   engine state, named by physical hash
    │     ├─ refs/head            text of the hash of the newest block, no newline
    │     └─ info/                not part of the dataset
    │        ├─ alias             text of the alias, no newline
    │        └─ node              further facts of the index: visibility, time of creation
    ├─ projections/
    │  └─ fed01…/                 indices and published forms; can be rebuilt from the dataset
    ├─ uploads/
    │  ├─ fed01…/f1620….9f3a…     spooled request bodies, and which of several copies this is; not
    │  │                          part of the dataset
    │  └─ .begun/                 unfinished uploads of each account
    └─ quarantine/
       └─ fed01…/data/f1620…      objects found damaged, for inspection by a person

Below `fed01…` this is the layout of ODF: the simple transfer protocol serves exactly these
paths. Entries that start with `.` are writes in progress, and readers skip them. A dataset folder
without `refs/head` is garbage, not a dataset.

Names consist only of canonical hash and id texts and of the constants below, so no input
can name a path outside of its folder.
Source: ODF "Dataset layout".

Failures of storage that are no fault of a user or program: an unreachable database, or a disk
that is full or read-only. Such a failure leaves nothing half written, and reads continue to work.

The module recognizes exceptions of drivers by their attributes, because the client uses it too and
does not import a database.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from odf_protocol.errors import BadInput, NodeError, Unavailable
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash, decode_multibase

from ..ports.errors import not_a_part_of_a_dataset
from ..ports.values import ObjectKey, ObjectKind

DATASETS = "datasets"
UPLOADS = "uploads"
BEGUN = ".begun"
QUARANTINE = "quarantine"
PROJECTIONS = "projections"
HEAD = "head"
ALIAS = "alias"
MAX_INFO_BYTES = 1024
"""Limit in bytes of an alias or note that is read."""
SPOOLED = ".spooled"
"""Folder of uploads in a bucket. Not `.uploads`, because SeaweedFS uses that for multipart uploads
and hides it in listings."""
EXCHANGE = ".exchange"
"""Folder in a bucket for files that a worker and Spark's executors exchange."""
PENDING_PREFIX = ".pending-"
"""Prefix of the names of files that are being written."""

KIND_FOLDERS: dict[ObjectKind, str] = {
    ObjectKind.BLOCK: "blocks",
    ObjectKind.DATA: "data",
    ObjectKind.CHECKPOINT: "checkpoints",
}
_REF = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_COPY = re.compile("[0-9a-f]{16}")


def object_path(kind: ObjectKind, object_hash: Multihash) -> PurePosixPath:
    """Return the path of an object below its dataset's folder: `blocks/f1620…`.

    Raises:
        NotAPartOfADataset: uploads are stored outside of the dataset, see `store_path`.
    """
    if kind not in KIND_FOLDERS:
        raise not_a_part_of_a_dataset(kind)
    return PurePosixPath(KIND_FOLDERS[kind], str(object_hash))


def ref_path(ref: str) -> PurePosixPath:
    """Return the path of a reference in its dataset's folder: `refs/head`. `MalformedRef`."""
    if _REF.fullmatch(ref) is None:
        raise BadInput("MalformedRef", f"not the name of a reference: {ref[:100]!r}", ref=ref[:100])
    return PurePosixPath("refs", ref)


def info_path(name: str) -> PurePosixPath:
    """Return the path of a note in its dataset's folder: `info/alias`. Raises `MalformedRef`."""
    return PurePosixPath("info", ref_path(name).name)


def parse_folder(name: str) -> DatasetId | None:
    """Return the dataset whose folder has this name; None for any other name."""
    if not name.startswith("f"):
        return None
    try:
        parsed = DatasetId.decode(decode_multibase(name))
    except BadInput:
        return None
    return parsed if dataset_folder(parsed) == name else None


def dataset_folder(dataset: DatasetId) -> str:
    """Return the name of a dataset's folder: `fed01…`."""
    return dataset.multibase


def dataset_path(dataset: DatasetId) -> PurePosixPath:
    """Return the path of a dataset below the store: `datasets/fed01…`."""
    return PurePosixPath(DATASETS, dataset_folder(dataset))


def uploads_path(dataset: DatasetId) -> PurePosixPath:
    """Return the path of a dataset's uploads below the store: `uploads/fed01…`."""
    return PurePosixPath(UPLOADS, dataset_folder(dataset))


def quarantine_path(key: ObjectKey) -> PurePosixPath:
    """Return the path below the store to which a damaged object is moved."""
    folder = KIND_FOLDERS.get(key.kind, UPLOADS)
    return PurePosixPath(QUARANTINE, dataset_folder(key.dataset), folder, object_name(key))


def object_name(key: ObjectKey) -> str:
    """Return the name of an object in its folder: its hash, and `.` with the copy of an upload."""
    return f"{key.hash}.{key.copy}" if key.copy else str(key.hash)


def store_name(key: ObjectKey) -> str:
    """Return the path of any object below the store, as text."""
    folder = dataset_folder(key.dataset)
    if key.kind is ObjectKind.UPLOAD:
        return f"{UPLOADS}/{folder}/{object_name(key)}"
    return f"{DATASETS}/{folder}/{KIND_FOLDERS[key.kind]}/{key.hash}"


def store_path(key: ObjectKey) -> PurePosixPath:
    """Return the path of any object below the store."""
    return PurePosixPath(store_name(key))


def bucket_folder(dataset: DatasetId, kind: ObjectKind) -> str:
    """Return the folder in a bucket, below its prefix, of a dataset's objects of a kind."""
    folder = dataset_folder(dataset)
    if kind is ObjectKind.UPLOAD:
        return f"{SPOOLED}/{folder}"
    return f"{folder}/{KIND_FOLDERS[kind]}"


def bucket_name(key: ObjectKey) -> str:
    """Return the name of any object in a bucket, below its prefix."""
    return f"{bucket_folder(key.dataset, key.kind)}/{object_name(key)}"


def parse_name(name: str) -> Multihash | None:
    """Return the hash that a file is named by; None for any other name and hidden entries."""
    if name.startswith("."):
        return None
    try:
        parsed = Multihash.parse(name)
    except BadInput:
        return None
    return parsed if str(parsed) == name else None


def parse_object_name(dataset: DatasetId, kind: ObjectKind, name: str) -> ObjectKey | None:
    """Return the key of the object that has this name in the folder of its kind; None for any
    other name."""
    text, dot, copy = name.partition(".")
    object_hash = parse_name(text)
    if object_hash is None:
        return None
    if not dot:
        return ObjectKey(dataset, kind, object_hash)
    if kind is not ObjectKind.UPLOAD or _COPY.fullmatch(copy) is None:
        return None
    return ObjectKey(dataset, kind, object_hash, copy)


FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
READ_ONLY_ERRNOS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
SQLITE_FULL, SQLITE_READONLY, SQLITE_IOERR = 13, 8, 10
POSTGRES_FULL = frozenset({"53100"})
POSTGRES_READ_ONLY = frozenset({"25006"})
PROBE_BYTES = 64 * 1024


class DatabaseUnavailable(Unavailable):
    """The database is unreachable or broke off. Whether the last change was made is unknown."""

    def __init__(self, host: str | None = None, cause: str = "") -> None:
        """`host` and `cause` are for administrators; clients do not get them."""
        super().__init__("the database is not available; try again later")
        self._host, self._cause = host, cause

    @property
    def for_operator(self) -> str:
        """The message with the database's host and the driver's reason, if they are known."""
        at = f" at {self._host}" if self._host else ""
        return f"the database{at} is not available: {self._cause}" if self._cause else self.message


class StorageFull(NodeError):
    """There is no space left for an object or row."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} has no room left; nothing was stored", where=where)


class StorageReadOnly(NodeError):
    """The file system or database does not allow writes."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} cannot be written to; nothing was stored", where=where)


@contextmanager
def storing(where: str = "the object store") -> Iterator[None]:
    """Convert the errors of a full or read-only file system to the node's errors."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_ERRNOS:
            raise StorageFull(where) from error
        if error.errno in READ_ONLY_ERRNOS:
            raise StorageReadOnly(where) from error
        raise


def database_trouble(
    error: BaseException, *, gone: bool, host: str | None = None
) -> NodeError | None:
    """Return the node's error for a driver's exception; None if the statement itself is wrong.

    `host` is that of the database.
    """
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        kind = code & 0xFF
        if kind == SQLITE_FULL or (kind == SQLITE_IOERR and _is_full(error)):
            return StorageFull("the database")
        return StorageReadOnly("the database") if kind == SQLITE_READONLY else None
    state = getattr(error, "sqlstate", None)
    if state in POSTGRES_FULL:
        return StorageFull("the database")
    if state in POSTGRES_READ_ONLY:
        return StorageReadOnly("the database")
    unreachable = type(error).__module__.startswith("psycopg") and _is_connection(error, state)
    return DatabaseUnavailable(host, str(error)) if gone or unreachable else None


def _is_full(error: BaseException) -> bool:
    """Return whether a write failed. SQLite reports no more if a limit of the process is hit."""
    return "WRITE" in str(getattr(error, "sqlite_errorname", ""))


def _is_connection(error: BaseException, state: str | None) -> bool:
    """Return whether the connection is missing or was ended: SQLSTATE 08, 57P, or none at all."""
    if state is None:
        return type(error).__name__ in ("OperationalError", "ConnectionTimeout", "AdminShutdown")
    return state.startswith(("08", "57P"))


def folder_trouble(folder: Path) -> str | None:
    """Return why nothing can be stored in a folder; None if a test write succeeds."""
    probe = folder / f"{PENDING_PREFIX}probe-{secrets.token_hex(8)}"
    try:
        with storing("the data folder"):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with probe.open("xb") as out:
                    out.write(bytes(PROBE_BYTES))
                    out.flush()
                    os.fsync(out.fileno())
            finally:
                with suppress(OSError):
                    probe.unlink(missing_ok=True)
    except (StorageFull, StorageReadOnly) as trouble:
        return trouble.message
    return None
