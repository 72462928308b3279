"""Audit entries of commands that run on the machine of the node."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Any

from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.audit_values import AuditEntry

if TYPE_CHECKING:
    from odf_storage.datasets.node.stores import Stores


def record_command(stores: Stores, action: str, **facts: Any) -> None:
    """Record in the audit log what a command did to the node. `facts` must contain no secrets."""
    stores.audit.record(
        [
            AuditEntry(
                at=system_clock(),
                actor=f"local:{_user()}",
                action=action,
                subject=" ".join(["odf-node", *sys.argv[1:3]]),
                outcome="done",
                facts={key: value for key, value in facts.items() if value is not None},
            )
        ]
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a name for its user
        return "unknown"
