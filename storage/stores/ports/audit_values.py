"""An entry of the audit log, and which entries are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Somebody asked for a change. `outcome`: the HTTP status, the close code of a transfer, or
    `done` and `failed` of a command; `number` counts entries once they are recorded."""

    at: Instant
    actor: str
    """Account name, `anonymous`, or `local:<user>` for commands on the machine of the node."""
    action: str
    subject: str
    """What was asked for: a path, or the words of a command."""
    outcome: str
    account: str | None = None
    """Id of the account: names may change."""
    dataset: DatasetId | None = None
    address: str | None = None
    """Where the request came from."""
    trace: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Selects entries; a field that is None selects all."""

    actor: str | None = None
    action: str | None = None
    dataset: DatasetId | None = None
    since: Instant | None = None
    until: Instant | None = None


EVERYTHING = AuditFilter()
