"""HTTP client of executors: files by signed links, with retries, and in bounded memory."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import time
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from odf_protocol.multihash import SHA3_256, Multihash
from odf_storage.datasets.integrity.hashing import hash_of_stream

from .files import ExchangeFault, Span, Spans

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

    from urllib3 import BaseHTTPResponse, PoolManager

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


def _copied(link: str, span: Span | None, target: BinaryIO, state: Hash) -> Hash:
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
