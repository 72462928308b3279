"""HTTP client of executors: files by signed links, with retries, and in bounded memory.

The types that a worker and its executors share: files by path or by link, and errors.

The executors' side: fetch files that the worker lends, and deliver files that tasks write.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from odf_protocol.multihash import SHA3_256, Multihash
from odf_storage.datasets.integrity.healing import Identity, hash_of_stream, identity_of_file
from odf_storage.stores.ports.values import StoredFile

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

    from urllib3 import BaseHTTPResponse, PoolManager


READ_BYTES = 1 << 20
ATTEMPTS = 4
"""Number of names that a partition has for the files of its attempts. Spark gives up after four
failures of a task; further attempts, after executors were lost, reuse a name."""


class ExchangeFault(OSError):
    """Error in an executor: the bucket does not respond, or has other bytes than expected."""


class LinkSpan(NamedTuple):
    """Bytes of a file from `start` to before `end`."""

    start: int
    end: int


Spans = tuple[LinkSpan, ...]
"""Parts of a file in their order, which do not overlap."""


@dataclass(frozen=True, slots=True)
class Loan:
    """A file in the bucket for executors: a link to read it, and the hash of its bytes. With
    `spans`, only these bytes are lent, and the hash is theirs."""

    link: str
    hash: str
    spans: Spans | None = None

    @property
    def name(self) -> str:
        """The name of the file on an executor. Equal bytes at other positions are another file."""
        return "-".join([self.hash, *(f"{start}-{end}" for start, end in self.spans or ())])


File = Path | Loan
"""A file for a task: a path if the task sees the worker's disk, else a loan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Where tasks put the files that they write: a folder of the worker, or a folder of the bucket
    with a link for each partition and attempt (see `name_of`)."""

    folder: Path
    links: Mapping[str, str] | None = None
    bucket_folder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A file that a task wrote. If it is `stored` in the bucket, `path` is where the worker may
    collect it; otherwise it is there already."""

    path: Path
    stored: StoredFile | None = None


def name_of(partition: int, attempt: int) -> str:
    """Return the name of the file of an attempt at a partition; both count from 0."""
    return f"{partition}-{attempt % ATTEMPTS}"


def pieces(path: Path, spans: Spans) -> Iterator[bytes]:
    """Yield the bytes of the spans, fewer if the file ends before."""
    with path.open("rb") as content:
        for span in spans:
            content.seek(span.start)
            left = span.end - span.start
            while left > 0 and (piece := content.read(min(left, READ_BYTES))):
                left -= len(piece)
                yield piece


COPY_BYTES = 1 << 20
AGENT = "odf-node-executor"
TRIES = 6
"""Attempts of one request, and of a download that breaks off. They take half a minute if each one
is refused at once."""
PAUSE_S, MOST_PAUSE_S = 0.5, 30.0
"""Seconds before the first retry, doubled for each further one; and the limit of such a pause, even
if the bucket requests a longer one."""
TIMEOUT_S = 60.0
"""Seconds without a byte after which an attempt fails."""
BUSY = (429, 500, 502, 503, 504)


def download(link: str, path: Path, spans: Spans | None = None) -> Multihash:
    """Download the file of a link to `path`, and return its hash. With `spans`, download only these
    bytes to the same positions of `path`, and return their hash. Raise `ExchangeFault`."""
    state = hashlib.sha3_256()
    with path.open("wb") as target:
        for span in (None,) if spans is None else spans:
            state = _copied(link, span, target, state)
    return Multihash(SHA3_256, state.digest())


def _copied(link: str, span: LinkSpan | None, target: BinaryIO, state: Hash) -> Hash:
    """Download the bytes of a span, or of the whole file, to their position. Return the state of
    the hash with these bytes added. Raise `ExchangeFault`."""
    from urllib3.exceptions import HTTPError  # a dependency of boto3, which is an extra

    start, headers, wanted = 0, {"User-Agent": AGENT}, HTTPStatus.OK
    if span is not None:
        start, wanted = span.start, HTTPStatus.PARTIAL_CONTENT
        headers["Range"] = f"bytes={span.start}-{span.end - 1}"
    broke: Exception = HTTPError()
    for tried in range(TRIES):
        time.sleep(_pause(tried))
        added = state.copy()
        target.seek(start)
        target.truncate()  # an attempt that broke off may have left more
        try:
            found = _answer("GET", link, preload_content=False, headers=headers)
            with _checked("GET", found, wanted) as answer:
                for piece in answer.stream(COPY_BYTES):
                    added.update(piece)
                    target.write(piece)
                return added
        except HTTPError as failed:  # the connection broke in the middle of the bytes
            broke = failed
    raise _silent(broke)


def opened(link: str) -> BinaryIO | None:
    """Return the file of a link as a stream, without a check of its hash; None if there is none.

    A read of the stream raises `ExchangeFault` if the connection breaks.
    """
    answer = _answer("GET", link, preload_content=False)
    if answer.status == HTTPStatus.NOT_FOUND:
        answer.close()
        return None
    return io.BufferedReader(_Body(_checked("GET", answer)), COPY_BYTES)


class _Body(io.RawIOBase):
    """The body of a response as a stream that can be read once."""

    def __init__(self, answer: BaseHTTPResponse) -> None:
        super().__init__()
        self._answer = answer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        from urllib3.exceptions import HTTPError

        try:
            part = self._answer.read(len(buffer))
        except HTTPError as failed:
            raise ExchangeFault(f"the bucket stops to answer: {type(failed).__name__}") from None
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        if not self.closed:
            self._answer.close()
        super().close()


def upload(path: Path, link: str) -> tuple[Multihash, str]:
    """Upload the file to a link. Return its hash, and the ETag that the bucket gave it. The bucket
    checks the MD5 of what it receives. Raise `ExchangeFault`."""
    md5 = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as content:
        found = hash_of_stream(content, md5.update)
        content.seek(0)
        headers = {
            "Content-Length": str(path.stat().st_size),
            "Content-MD5": base64.b64encode(md5.digest()).decode(),
            "User-Agent": AGENT,
        }
        answer = _asked("PUT", link, body=content, headers=headers)
    if (etag := answer.headers.get("ETag")) is None:
        raise ExchangeFault("the bucket does not name the version that it stored")
    return found, etag


def _asked(method: str, link: str, **more: Any) -> BaseHTTPResponse:
    """Send a request and return the response. Raise `ExchangeFault` unless its status is OK."""
    return _checked(method, _answer(method, link, **more))


def _answer(method: str, link: str, **more: Any) -> BaseHTTPResponse:
    """Send a request and return the response with any status. Raise `ExchangeFault`, without the
    link in the message, because anybody who has the link may use it."""
    from urllib3.exceptions import HTTPError

    try:
        return _pool(os.getpid()).request(method, link, **more)
    except HTTPError as failed:
        raise _silent(failed) from None


def _checked(
    method: str, answer: BaseHTTPResponse, wanted: HTTPStatus = HTTPStatus.OK
) -> BaseHTTPResponse:
    if answer.status != wanted:
        answer.close()
        raise ExchangeFault(f"the bucket answers {answer.status} to {method}")
    return answer


def _pause(tried: int) -> float:
    """Return the seconds to wait before the next attempt."""
    return min(PAUSE_S * 2**tried, MOST_PAUSE_S) if tried else 0.0


def _silent(failed: Exception) -> ExchangeFault:
    return ExchangeFault(f"the bucket does not answer: {type(failed).__name__}")


@lru_cache(maxsize=1)
def _pool(_process: int) -> PoolManager:
    """Return the connection pool of this process; a fork, as Spark makes them, needs a new one."""
    from urllib3 import PoolManager, Retry

    again = Retry(
        TRIES - 1,
        backoff_factor=PAUSE_S,
        backoff_max=MOST_PAUSE_S,
        backoff_jitter=PAUSE_S,
        retry_after_max=int(MOST_PAUSE_S),
        status_forcelist=BUSY,
        allowed_methods=("GET", "PUT"),
        raise_on_status=False,
    )
    return PoolManager(retries=again, timeout=TIMEOUT_S, headers={"User-Agent": AGENT})


LOANS = "odf-loans"
"""Prefix of the name of an executor's folder for lent files."""
LOAN_S = 3600.0
"""Seconds for which an executor keeps a loan."""
_LOCK = ".lock"
_hashed: dict[str, Identity] = {}
"""Identity of each lent file, by name, when this process last checked its bytes."""
_attempt: str | None = None
"""Name of the files that the running task delivers. A process runs one task at a time."""


def begin(partition: int, attempt: int) -> None:
    """Begin an attempt at a partition, whose files get the name of that attempt."""
    global _attempt
    _attempt = name_of(partition, attempt)


def at_hand(file: File) -> Path:
    """Return the path of the file on this machine, after fetching it if necessary. Of a loan with
    spans, only these bytes are there, at their positions.

    Raises:
        ExchangeFault: the bucket does not respond, or has other bytes.
    """
    if isinstance(file, Path):
        return file
    folder = _own_folder()
    path = folder / file.name
    with _locked(folder / f"{file.name}{_LOCK}"):  # so that concurrent tasks fetch it only once
        if path.exists() and _is_whole(path, file):
            return path
        _forget(folder)
        _fetch(file, folder, path)
    return path


def workplace(outbox: Outbox) -> Path:
    """Return a folder in which a task may write a file before it delivers the file."""
    return outbox.folder if outbox.links is None else Path(tempfile.gettempdir())


def deliver(path: Path, outbox: Outbox) -> Delivered:
    """Hand a finished file to the worker. On another machine, upload it and delete it from this
    disk. Raise `ExchangeFault`."""
    if outbox.links is None:
        return Delivered(path=path)
    if (name := _attempt) is None:
        raise AssertionError("unreachable: links are for tasks")
    try:
        content, etag = upload(path, outbox.links[name])
    finally:
        path.unlink()
    stored = StoredFile(f"{outbox.bucket_folder}/{name}", content, etag)
    return Delivered(path=outbox.folder / name, stored=stored)


def _fetch(file: Loan, folder: Path, path: Path) -> None:
    pending = folder / f"{file.name}-{secrets.token_hex(8)}"
    try:
        if str(download(file.link, pending, file.spans)) != file.hash:
            raise ExchangeFault(f"the bucket has other bytes than those of {file.hash}")
        pending.replace(path)
    finally:
        pending.unlink(missing_ok=True)
    _hashed[file.name] = identity_of_file(path.stat())


def _own_folder() -> Path:
    """Return a folder that only this account may use. In a shared one, other accounts could put
    files under the names of loans."""
    folder = Path(tempfile.gettempdir()) / f"{LOANS}-{os.getuid()}"
    folder.mkdir(exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise ExchangeFault(f"{folder} belongs to another account")
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock of this machine's tasks during the block; it is released if the process ends."""
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_whole(path: Path, file: Loan) -> bool:
    """Return whether the file has the loan's hash. Skip the hashing if this process checked the
    file before and it has not changed since."""
    identity = identity_of_file(path.stat())
    if _hashed.get(file.name) == identity:
        return True
    spans = file.spans or (LinkSpan(0, path.stat().st_size),)
    if str(Multihash.of_chunks(pieces(path, spans))) != file.hash:
        return False
    _hashed[file.name] = identity
    return True


def _forget(folder: Path) -> None:
    """Remove files fetched more than `LOAN_S` ago. If this removes a lock for which another task
    waits, that task fetches the file again."""
    for each in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - each.stat().st_mtime > LOAN_S:
                each.unlink()
                _hashed.pop(each.name, None)
