"""Local files as sources: only below the folders that the administrator names.

A file is copied before it is read, and its status is compared before and after copying, so that
state and event time always describe the bytes that are read.

A modification time alone does not say that a file is the same: programs that copy set it, and two
writes may fall into one tick of the clock. So a file with the time of the last poll is hashed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from odf_protocol.errors import BadInput, RemoteFailed
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import EventTimeSourceFromSystemTime, FetchStepUrl
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import body_hash
from odf_storage.datasets.dataset.info import chunks

from .values import LAST_MODIFIED, Deadline, Fetched, FetchRequest, FetchRules, spooled, state

CHUNK_BYTES = 1 << 20
COPY_TRIES = 3
_LOCAL = ("", "localhost")


def fetch_file(step: FetchStepUrl, url: str, request: FetchRequest) -> Fetched | None:
    """Return a copy of the file, or None if its modification time equals the state's and its bytes
    are those of the last poll, as far as its block tells.

    Raises:
        SourceMissing, SourceRefused, SourceUnreachable, EventTimeNotFound.
    """
    parts = urlsplit(url)
    if parts.netloc not in _LOCAL:
        raise BadInput("MalformedSource", "a file address names a local path: file:///path")
    path = allowed_file(Path(unquote(parts.path)), request.rules)
    since = request.state_of(LAST_MODIFIED)
    copy, modified = copied(path, request, since=since)
    if copy is None:
        if body_hash(request.marks) in (None, present_hash(path)):
            return None
        copy, modified = copied(path, request)
    if copy is None:
        return None
    from_clock = isinstance(step.event_time, EventTimeSourceFromSystemTime)
    return Fetched(
        path=copy,
        state=state(LAST_MODIFIED, str(modified)),
        event_time=request.system_time if from_clock else modified,
    )


def allowed_file(path: Path, rules: FetchRules) -> Path:
    """Resolve a path to a file, following links.

    Raises:
        SourceRefused: the file is outside the folders that may be read.
        SourceMissing: it does not exist, or is not a file.
    """
    real = _allowed(path, rules)
    if not real.is_file():
        raise RemoteFailed("SourceMissing", f"there is no file {path}", path=str(path))
    return real


def allowed_folder(path: Path, rules: FetchRules) -> Path:
    """Resolve a path to a folder, following links. Raises the same errors as `allowed_file`."""
    real = _allowed(path, rules)
    if not real.is_dir():
        raise RemoteFailed("SourceMissing", f"there is no folder {path}", path=str(path))
    return real


def _allowed(path: Path, rules: FetchRules) -> Path:
    roots = [root.resolve() for root in rules.roots]
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):
        raise BadInput("MalformedSource", "the path of the source cannot be followed") from None
    if not path.is_absolute() or not any(real.is_relative_to(root) for root in roots):
        raise BadInput(
            "SourceRefused",
            "the source is a local file outside of the folders this node reads; its "
            "administrator can allow a folder",
            path=str(path),
            setting="ODF_WORKER_FETCH_ROOTS",
        )
    return real


def copied(
    path: Path, request: FetchRequest, *, since: str | None = None
) -> tuple[Path | None, Instant]:
    """Return a copy and its modification time (rounded to ms); no copy if the time equals `since`.

    Raises:
        SourceMissing: the file has vanished.
        SourceUnreachable: the file is being written continuously.
    """
    deadline = Deadline(request.rules)
    for _ in range(COPY_TRIES):
        with _opened(path) as stream:
            before = os.fstat(stream.fileno())
            modified = _millis(before)
            if since == str(modified):
                return None, modified
            copy = spooled(_chunks(stream), request.folder / "fetched", request.rules, deadline)
            after = os.fstat(stream.fileno())
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            return copy, modified
    raise RemoteFailed(
        "SourceUnreachable", f"the file {path} changes while it is read", path=str(path)
    )


def present_hash(path: Path) -> str:
    """Return the hash of a file, empty if it cannot be read. It is kept while size and times tell
    that the file is the same."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return _hash_of(str(path), status.st_size, changed_ns(status))


def changed_ns(status: os.stat_result) -> int:
    """Return when the file was last written or given another time."""
    return max(status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(10_000)
def _hash_of(path: str, _size: int, _changed: int) -> str:
    try:
        return str(Multihash.of_chunks(chunks(Path(path))))
    except OSError:
        return ""


def _opened(path: Path) -> BinaryIO:
    """Open the file itself: not a link that replaced it, nor a pipe that would block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as bad:
        raise RemoteFailed(
            "SourceMissing", f"the file {path} cannot be opened ({bad.strerror})", path=str(path)
        ) from None
    stream = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        stream.close()
        raise RemoteFailed("SourceMissing", f"{path} is no file", path=str(path))
    return stream


def _millis(status: os.stat_result) -> Instant:
    return Instant.from_millis((status.st_mtime_ns + 500_000) // 1_000_000)


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk
