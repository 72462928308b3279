"""Send one request to a receiver: only to allowed addresses, without redirects, with a time limit.

Of the response only the status and `Retry-After` are read.

The messages to receivers: a notice as a CloudEvent (version 1.0, structured mode).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from odf_protocol.errors import NodeError, RemoteFailed
from odf_protocol.instant import Instant
from odf_storage.runtime.networks import HostRefused
from odf_storage.stores.ports.values import Failing
from odf_storage.stores.ports.webhooks import Webhook

from ..news.notices import BLOCK, RESET, NewsNotice

if TYPE_CHECKING:
    import httpx

CONTENT_TYPE = "application/cloudevents+json"
TYPES = {
    BLOCK: "org.opendatafabric.block.appended",
    RESET: "org.opendatafabric.history.reset",
}
FAILING = "org.opendatafabric.polls.failing"
PING = "org.opendatafabric.ping"
SEQUENCE_DIGITS = 20
"""Width of `sequence` in digits; receivers compare it as text, so all have the same width."""


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """One delivery. Its id and body are the same in each attempt and in every process."""

    id: str
    body: bytes
    is_reset: bool = False


def message_of(webhook: Webhook, notice: NewsNotice, *, source: str) -> WebhookMessage:
    """Return the delivery of a notice. `source` is the address of the dataset.

    A block may be delivered again after a reset, so the number of resets is part of the id.
    """
    told = msgspec.json.decode(notice.content + b"}")
    is_reset = notice.event == RESET
    kind = "reset-" if is_reset else ""
    id_ = f"{webhook.id}-{webhook.resets}-{kind}{notice.id}"
    more: dict[str, Any] = {}
    if not is_reset:
        number = f"{told['sequenceNumber']:0{SEQUENCE_DIGITS}}"
        more = {"time": told["systemTime"], "sequence": number}
    body = _event(id_, TYPES[notice.event], source, told["alias"], told, **more)
    return WebhookMessage(id_, body, is_reset)


def failing_of(webhook: Webhook, failing: Failing, alias: str, *, source: str) -> WebhookMessage:
    """Return the delivery of the news that the polls of the dataset fail. It says nothing of the
    reason, which may quote the source. A later attempt may have a larger count."""
    id_ = f"{webhook.id}-polls-{failing.first}"
    told = {
        "dataset": str(webhook.dataset),
        "alias": alias,
        "failed": failing.count,
        "since": str(failing.since),
    }
    return WebhookMessage(id_, _event(id_, FAILING, source, alias, told, time=str(failing.since)))


def ping_of(
    webhook: Webhook, alias: str, *, source: str, number: str, at: Instant
) -> WebhookMessage:
    """Return an empty delivery, to try an address. `number` must be different each time."""
    id_ = f"{webhook.id}-ping-{number}"
    told = {"dataset": str(webhook.dataset), "alias": alias}
    return WebhookMessage(id_, _event(id_, PING, source, alias, told, time=str(at)))


def _event(id_: str, kind: str, source: str, subject: str, data: Any, **more: str) -> bytes:
    event = {
        "specversion": "1.0",
        "id": id_,
        "source": source,
        "type": kind,
        "subject": subject,
        "datacontenttype": "application/json",
        **more,
        "data": data,
    }
    return msgspec.json.encode(event)


GONE = 410
USER_AGENT = "odf-node"


def receiver_refused(status: int) -> RemoteFailed:
    """The receiver of a webhook did not respond with success. The fact `status` has its status."""
    redirects = "; redirects are not followed" if status // 100 == 3 else ""
    return RemoteFailed(
        "ReceiverRefused", f"the receiver answered {status}{redirects}", status=status
    )


class ReceiverGone(RemoteFailed):
    """The receiver of a webhook responded 410: it wants no further deliveries."""

    def __init__(self) -> None:
        super().__init__("the receiver answered 410: it wants nothing any more", status=GONE)


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
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

    def send(self, url: str, message: WebhookMessage, headers: dict[str, str]) -> DeliveryAnswer:
        """Try once and return the outcome, also of an error. Takes at most `timeout_s`."""
        from ...client.nodes.later import httpx  # most nodes have no webhooks

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
            error = RemoteFailed(
                "ReceiverUnreachable", f"the receiver did not answer within {self.timeout_s:g} s"
            )
        except (httpx.HTTPError, httpx.InvalidURL) as broken:
            error = RemoteFailed(
                "ReceiverUnreachable", f"the receiver was not reached: {type(broken).__name__}"
            )
        took_ms = int((time.monotonic() - began) * 1000)
        return DeliveryAnswer(error, status, retry_after_s, took_ms)

    async def _head(
        self, url: str, message: WebhookMessage, headers: dict[str, str]
    ) -> httpx.Response:
        from ...client.nodes.http import trusted
        from ...client.nodes.later import httpx
        from ...client.nodes.reach import GuardedAsyncTransport

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
    return ReceiverGone() if status == GONE else receiver_refused(status)


def _seconds(retry_after: str | None) -> float:
    """Return `Retry-After` in seconds; 0 if absent or a date, so that the usual pause applies."""
    text = retry_after or ""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
