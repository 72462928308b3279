"""Webhooks, how far each was told, and who is at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .derivation_values import Problem
from .values import AccountId
from .webhook_values import DeliveryAttempt, Webhook, WebhookState


class WebhookReads(Protocol):
    """Which webhooks there are, and what was tried of late."""

    def find(self, webhook: str) -> Webhook | None: ...
    def of_account(self, dataset: DatasetId, account: AccountId) -> Sequence[Webhook]:
        """Those that the account has at the dataset, oldest first."""

    def attempts(self, webhook: str, *, limit: int) -> Sequence[DeliveryAttempt]:
        """Newest first."""


class WebhookChanges(Protocol):
    """Webhooks come and go, with their dataset and their account at the latest."""

    def add(self, webhook: Webhook, *, most: int) -> bool:
        """False, and nothing is added, where the account has `most` at the dataset already.

        Raises:
            DatasetNotFound.
        """

    def remove(self, webhook: str) -> None:
        """Nothing there: nothing happens."""

    def reseal(self, webhook: str, sealed_secret: bytes) -> None:
        """Other secrets in the place of those it has; all else stays."""

    def restart(self, webhook: str, *, position: Multihash | None) -> None:
        """Active again, and told what is behind `position`. A delivery that is under way no
        longer moves the position."""


class WebhookWork(Protocol):
    """Deliveries: one process at a time is at a webhook, for as long as its lease lasts.

    `holder` names a lease. What a holder says that has lost its lease to another one, or to a
    restart, changes nothing: False.
    """

    def due(self, *, now: Instant, limit: int) -> Sequence[Webhook]:
        """Active ones that were not told of the head of their dataset, and nobody is at."""

    def lease(self, webhook: str, holder: str, *, now: Instant, until: Instant) -> Webhook | None:
        """Take or extend the lease. None: another one has it, or nothing is to be delivered now."""

    def delivered(
        self,
        webhook: str,
        holder: str,
        attempt: DeliveryAttempt,
        *,
        position: Multihash,
        resets: int,
    ) -> bool:
        """The receiver took it: position, end of all failures and attempt in one transaction."""

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
        """One more failure in a row; the lease ends. No `attempt`: nothing was sent."""

    def release(self, webhook: str, holder: str) -> None: ...
    def note(self, webhook: str, attempt: DeliveryAttempt) -> None:
        """An attempt that is no delivery. Of each webhook the newest hundred attempts are kept."""


class WebhookStore(WebhookReads, WebhookChanges, WebhookWork, Protocol):
    """All of it; those who use one name the part that they need."""
