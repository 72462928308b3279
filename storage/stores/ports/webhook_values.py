"""A webhook: which address is told of the blocks of a dataset, and how far it was told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash

from .derivation_values import Problem
from .values import AccountId


class WebhookState(StrEnum):
    """Whether deliveries go on."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Too many deliveries failed one after the other."""
    ENDED = "ended"
    """The receiver wants no more, or the account may not read the dataset any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One address that is told of one dataset, for one account."""

    id: str
    dataset: DatasetId
    account: AccountId
    url: str
    sealed_secret: bytes = field(repr=False)
    """What signs deliveries, encrypted by the node."""
    created_at: Instant
    position: Multihash | None = None
    """The last block that the receiver took; None: it took none yet."""
    resets: int = 0
    """How often the receiver was told of another history; part of the ids of its deliveries."""
    state: WebhookState = WebhookState.ACTIVE
    not_before: Instant | None = None
    """Nothing is delivered before."""
    attempts: int = 0
    """Failed ones in a row."""
    failing_since: Instant | None = None
    problem: Problem | None = None
    """Why the last attempt failed; None once one succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """One request to a receiver, and what came of it."""

    at: Instant
    message: str
    """The id of the delivery, the same in each attempt."""
    status: int | None = None
    """What the receiver answered; None: nothing."""
    error: str | None = None
    """Class name of what went wrong; None: the receiver took it."""
    took_ms: int = 0
