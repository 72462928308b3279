"""The messages to receivers: a notice as a CloudEvent (version 1.0, structured mode)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Failing
from odf_storage.stores.ports.webhook_values import Webhook

from ..news.notices import BLOCK, RESET, Notice

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
class Message:
    """One delivery. Its id and body are the same in each attempt and in every process."""

    id: str
    body: bytes
    is_reset: bool = False


def message_of(webhook: Webhook, notice: Notice, *, source: str) -> Message:
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
    return Message(id_, body, is_reset)


def failing_of(webhook: Webhook, failing: Failing, alias: str, *, source: str) -> Message:
    """Return the delivery of the news that the polls of the dataset fail. It says nothing of the
    reason, which may quote the source. A later attempt may have a larger count."""
    id_ = f"{webhook.id}-polls-{failing.first}"
    told = {
        "dataset": str(webhook.dataset),
        "alias": alias,
        "failed": failing.count,
        "since": str(failing.since),
    }
    return Message(id_, _event(id_, FAILING, source, alias, told, time=str(failing.since)))


def ping_of(webhook: Webhook, alias: str, *, source: str, number: str, at: Instant) -> Message:
    """Return an empty delivery, to try an address. `number` must be different each time."""
    id_ = f"{webhook.id}-ping-{number}"
    told = {"dataset": str(webhook.dataset), "alias": alias}
    return Message(id_, _event(id_, PING, source, alias, told, time=str(at)))


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
