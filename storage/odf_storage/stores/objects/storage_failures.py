"""Failures of storage that are no fault of a user or program: an unreachable database, or a disk
that is full or read-only. Such a failure leaves nothing half written, and reads continue to work.

The module recognizes exceptions of drivers by their attributes, because the client uses it too and
does not import a database.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from odf_protocol.errors import NodeError, Unavailable

from .layout import PENDING_PREFIX

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
