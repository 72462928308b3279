"""HTTP of executors: files by links of the bucket, in bounded memory, tried again for a while."""

from __future__ import annotations

import io
import os
import time
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.integrity.hashing import hash_of_stream

from .files import ExchangeFault

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

COPY_BYTES = 1 << 20
AGENT = "odf-node-executor"
TRIES = 6
"""Of one request, and of a file whose bytes break off: half a minute if it is refused each time."""
PAUSE_S, MOST_PAUSE_S = 0.5, 30.0
"""Before the next try, longer each time; and the longest, also if the bucket asks for more."""
TIMEOUT_S = 60.0
"""Without a byte."""
BUSY = (429, 500, 502, 503, 504)


def download(link: str, path: Path) -> Multihash:
    """Write what is behind a link to `path`; its hash. Raises `ExchangeFault`."""
    from urllib3.exceptions import HTTPError  # comes with boto3, which is an extra

    broke: Exception = HTTPError()
    for tried in range(TRIES):
        time.sleep(_pause(tried))
        try:
            with _asked("GET", link, preload_content=False) as answer, path.open("wb") as target:
                return hash_of_stream(answer, target.write)  # type: ignore[arg-type]
        except HTTPError as failed:  # in the middle of the bytes
            broke = failed
    raise _silent(broke)


def opened(link: str) -> BinaryIO | None:
    """The bytes behind a link as they come, not hashed. None: there is nothing.

    What is read raises `ExchangeFault` if the bucket stops to answer.
    """
    answer = _answer("GET", link, preload_content=False)
    if answer.status == HTTPStatus.NOT_FOUND:
        answer.close()
        return None
    return io.BufferedReader(_Body(_checked("GET", answer)), COPY_BYTES)


class _Body(io.RawIOBase):
    """An answer of the bucket, read once from its begin."""

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


def upload(path: Path, link: str) -> Multihash:
    """Put the file where a link leads; its hash. Raises `ExchangeFault`."""
    with path.open("rb") as content:
        found = hash_of_stream(content)
        content.seek(0)
        headers = {"Content-Length": str(path.stat().st_size), "User-Agent": AGENT}
        _asked("PUT", link, body=content, headers=headers)
    return found


def _asked(method: str, link: str, **more: Any) -> BaseHTTPResponse:
    """The answer, if it is the one wanted."""
    return _checked(method, _answer(method, link, **more))


def _answer(method: str, link: str, **more: Any) -> BaseHTTPResponse:
    """Links stay out of messages: anybody who has one may use it."""
    from urllib3.exceptions import HTTPError

    try:
        return _pool(os.getpid()).request(method, link, **more)
    except HTTPError as failed:
        raise _silent(failed) from None


def _checked(method: str, answer: BaseHTTPResponse) -> BaseHTTPResponse:
    if answer.status != HTTPStatus.OK:
        answer.close()
        raise ExchangeFault(f"the bucket answers {answer.status} to {method}")
    return answer


def _pause(tried: int) -> float:
    """Seconds before the next try."""
    return min(PAUSE_S * 2**tried, MOST_PAUSE_S) if tried else 0.0


def _silent(failed: Exception) -> ExchangeFault:
    return ExchangeFault(f"the bucket does not answer: {type(failed).__name__}")


@lru_cache(maxsize=1)
def _pool(_process: int) -> PoolManager:
    """One a process: Spark forks its Python workers."""
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
