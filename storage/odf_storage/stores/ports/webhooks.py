"""A webhook: an address that gets the new blocks of a dataset, and the last delivered position."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .following import Problem
from .values import AccountId, JobId


class WebhookState(StrEnum):
    """Whether deliveries continue."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Too many consecutive deliveries failed."""
    ENDED = "ended"
    """The receiver unsubscribed, or the account may no longer read the dataset."""


WEBHOOK_SECRET = "secret"  # noqa: S105 - the name of a secret, not one


def secret_owner(webhook: str, dataset: DatasetId) -> str:
    """Return the owner for which secrets of a webhook are sealed."""
    return f"webhook:{dataset}:{webhook}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address that is notified about one dataset on behalf of one account."""

    id: str
    dataset: DatasetId
    account: AccountId
    url: str
    sealed_secret: bytes = field(repr=False)
    """The secrets that sign deliveries, encrypted by the node."""
    created_at: Instant
    position: Multihash | None = None
    """The last block that the receiver accepted; None if it has accepted none."""
    resets: int = 0
    """Number of times that the history changed under the receiver; part of the delivery ids."""
    state: WebhookState = WebhookState.ACTIVE
    not_before: Instant | None = None
    """No delivery is sent before this time."""
    attempts: int = 0
    """Number of consecutive failed attempts."""
    failing_since: Instant | None = None
    problem: Problem | None = None
    """Why the last attempt failed; None after a success."""
    failing_told: JobId | None = None
    """The first of the failed polls of which the receiver was told last."""

    @property
    def secret_owner(self) -> str:
        """Return for whom the secrets are sealed."""
        return secret_owner(self.id, self.dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """One request to a receiver, and its result."""

    at: Instant
    message: str
    """The id of the delivery, which is the same in each attempt."""
    status: int | None = None
    """HTTP status of the response; None if there was no response."""
    error: str | None = None
    """Class name of the error; None if the receiver accepted the delivery."""
    took_ms: int = 0
