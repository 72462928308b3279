"""An entry of the audit log, and the filter that selects entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A change that an actor requested. `outcome` is the HTTP status, the close code of a
    transfer, or `done` or `failed` of a command; the log assigns `number` on recording."""

    at: Instant
    actor: str
    """Account name, `anonymous`, or `local:<user>` for commands on the machine of the node."""
    action: str
    subject: str
    """The target of the request: a path, or the words of a command."""
    outcome: str
    account: str | None = None
    """Id of the account, because its name may change."""
    dataset: DatasetId | None = None
    address: str | None = None
    """Network address of the client."""
    trace: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Selects entries. A field that is None does not restrict them."""

    actor: str | None = None
    action: str | None = None
    dataset: DatasetId | None = None
    since: Instant | None = None
    until: Instant | None = None


EVERYTHING = AuditFilter()
