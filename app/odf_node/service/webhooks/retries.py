"""Decide after a failed attempt when the next one is, or that there is none."""

from __future__ import annotations

from collections.abc import Sequence

from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.ports.webhook_values import WebhookState

from .sending import Answer, ReceiverGone

JITTER = 0.1
LONGEST_S = 86_400.0
"""Limit in seconds of a `Retry-After` that we follow."""


def after_failure(
    answer: Answer, *, failed_before: int, retry_s: Sequence[float], now: Instant, chance: float
) -> tuple[WebhookState, Instant | None]:
    """Return the new state of the webhook, and the time before which nothing is sent.

    `failed_before` counts failures in a row without this one, `chance` is from 0 to 1.
    """
    if isinstance(answer.error, ReceiverGone):
        return WebhookState.ENDED, None
    if failed_before >= len(retry_s):
        return WebhookState.PAUSED, None
    pause_s = retry_s[failed_before] * (1 + JITTER * chance)
    pause_s = max(pause_s, min(answer.retry_after_s, LONGEST_S))
    return WebhookState.ACTIVE, Instant(now.ns + int(pause_s * NANOS))
