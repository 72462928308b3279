"""Ports for webhooks, their positions and their leases.

A webhook: an address that gets the new blocks of a dataset, and the last delivered position.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from .following import Problem
from .values import AccountId, Failing, JobId


class WebhookState(StrEnum):
    """Whether deliveries continue."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Too many consecutive deliveries failed."""
    ENDED = "ended"
    """The receiver unsubscribed, or the account may no longer read the dataset."""


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


class WebhookReads(Protocol):
    """Reads webhooks and their recent attempts."""

    def find(self, webhook: str) -> Webhook | None: ...
    def of_account(self, dataset: DatasetId, account: AccountId) -> Sequence[Webhook]:
        """Return the account's webhooks for the dataset, oldest first."""

    def attempts(self, webhook: str, *, limit: int) -> Sequence[DeliveryAttempt]:
        """Return attempts, newest first."""


class WebhookChanges(Protocol):
    """Adds and removes webhooks. They are removed with their dataset or account at the latest."""

    def add(self, webhook: Webhook, *, most: int) -> bool:
        """Add a webhook. Return False, without adding, if the account has `most` for the dataset.

        Raises:
            DatasetNotFound.
        """

    def remove(self, webhook: str) -> None:
        """Remove the webhook, if there is one."""

    def reseal(self, webhook: str, sealed_secret: bytes) -> None:
        """Replace the webhook's secrets and nothing else."""

    def restart(self, webhook: str, *, position: Multihash | None) -> None:
        """Make the webhook active again and deliver what follows `position`. A delivery in
        progress no longer moves the position."""


class WebhookWork(Protocol):
    """Delivery: while its lease lasts, only one process delivers to a webhook.

    `holder` names a lease. If a holder has lost its lease to another process or to a restart, its
    calls change nothing and return False.
    """

    def due(
        self,
        *,
        now: Instant,
        limit: int,
        each: int | None = None,
        without: Collection[AccountId] = (),
        failing: Collection[Failing] = (),
    ) -> Sequence[Webhook]:
        """Return active, unleased webhooks that do not know the head of their dataset yet, or that
        it is among those whose polls are `failing`: those first whose last attempt is longest ago,
        `each` of an account at most, and none of the accounts `without`."""

    def lease(self, webhook: str, holder: str, *, now: Instant, until: Instant) -> Webhook | None:
        """Take or extend the lease. None if another has it, or if nothing is to be delivered."""

    def delivered(
        self,
        webhook: str,
        holder: str,
        attempt: DeliveryAttempt,
        *,
        position: Multihash,
        resets: int,
    ) -> bool:
        """Record a success: set the position, clear failures and add the attempt, atomically."""

    def told_failing(
        self, webhook: str, holder: str, attempt: DeliveryAttempt, *, first: JobId
    ) -> bool:
        """Record a success as `delivered` does, but of the news that polls fail since `first`."""

    def failed(
        self,
        webhook: str,
        holder: str,
        attempt: DeliveryAttempt | None,
        *,
        problem: Problem,
        state: WebhookState,
        not_before: Instant | None,
    ) -> bool:
        """Record one more consecutive failure; end the lease. No `attempt`: nothing was sent."""

    def release(self, webhook: str, holder: str) -> None: ...
    def note(self, webhook: str, attempt: DeliveryAttempt) -> None:
        """Record an attempt that is no delivery. The newest hundred per webhook are kept."""


class WebhookStore(WebhookReads, WebhookChanges, WebhookWork, Protocol):
    """All webhook ports in one; code that uses the store names the part that it needs."""
