"""Send one request to a receiver: only to allowed addresses, without redirects, with a time limit.

Of the response only the status and `Retry-After` are read.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import httpx

from odf_protocol.errors import NodeError, RemoteFailed
from odf_storage.runtime.networks import HostRefused

from ...client.http import trusted
from ...client.reach import GuardedAsyncTransport
from .messages import CONTENT_TYPE, Message

GONE = 410
USER_AGENT = "odf-node"


class ReceiverUnreachable(RemoteFailed):
    """The receiver of a webhook was not reached, or did not respond in time."""


class ReceiverRefused(RemoteFailed):
    """The receiver of a webhook did not respond with success. The fact `status` has its status."""

    def __init__(self, status: int) -> None:
        redirects = "; redirects are not followed" if status // 100 == 3 else ""
        super().__init__(f"the receiver answered {status}{redirects}", status=status)


class ReceiverGone(RemoteFailed):
    """The receiver of a webhook responded 410: it wants no further deliveries."""

    def __init__(self) -> None:
        super().__init__("the receiver answered 410: it wants nothing any more", status=GONE)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a request. `error` is None if the receiver accepted it."""

    error: NodeError | None
    status: int | None
    retry_after_s: float
    took_ms: int


@dataclass(frozen=True)
class Sender:
    """Sends deliveries. `networks` are allowed address ranges beside the public network."""

    networks: tuple[str, ...]
    timeout_s: float
    """Limit in seconds of a whole request."""

    def send(self, url: str, message: Message, headers: dict[str, str]) -> Answer:
        """Try once and return the outcome, also of an error. Takes at most `timeout_s`."""
        began = time.monotonic()
        status, retry_after_s = None, 0.0
        error: NodeError | None = None
        try:
            head = asyncio.run(self._head(url, message, headers))
            status, retry_after_s = head.status_code, _seconds(head.headers.get("retry-after"))
            error = _error_of(status)
        except HostRefused as refused:
            error = refused
        except TimeoutError:
            error = ReceiverUnreachable(f"the receiver did not answer within {self.timeout_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as broken:
            error = ReceiverUnreachable(f"the receiver was not reached: {type(broken).__name__}")
        took_ms = int((time.monotonic() - began) * 1000)
        return Answer(error, status, retry_after_s, took_ms)

    async def _head(self, url: str, message: Message, headers: dict[str, str]) -> httpx.Response:
        sent = {"content-type": CONTENT_TYPE, "user-agent": USER_AGENT, **headers}
        transport = GuardedAsyncTransport(self.networks, trusted())
        async with (
            asyncio.timeout(self.timeout_s),
            httpx.AsyncClient(
                transport=transport, timeout=self.timeout_s, follow_redirects=False, trust_env=False
            ) as http,
            http.stream("POST", url, content=message.body, headers=sent) as response,
        ):
            return response


def _error_of(status: int) -> NodeError | None:
    if 200 <= status < 300:
        return None
    return ReceiverGone() if status == GONE else ReceiverRefused(status)


def _seconds(retry_after: str | None) -> float:
    """Return `Retry-After` in seconds; 0 if absent or a date, so that the usual pause applies."""
    text = retry_after or ""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
