"""Cache of the roles of accounts, kept for one second, because every request with a token needs
them.

A change of a role by this process takes effect at once, by another process within a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from odf_protocol.identity import DatasetId
from odf_storage.stores.ports import RoleReads
from odf_storage.stores.ports.values import AccountId, Role

KEPT_S = 1.0
MAX_ACCOUNTS = 1024

Roles = Mapping[DatasetId, Role]


class RoleMemory:
    """A cache of roles by account. `now` is a monotonic clock in seconds."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[AccountId, tuple[float, Roles]] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def of(self, account: AccountId, roles: RoleReads) -> Roles:
        """Return the roles of an account from the cache, else from `roles`. They may be one second
        old."""
        now = self._now()
        with self._lock:
            until, held = self._known.get(account, (0.0, {}))
            changes = self._changes
        if now < until:
            return held
        held = roles.of_account(account)
        with self._lock:
            if changes == self._changes:
                if len(self._known) >= MAX_ACCOUNTS:
                    self._known.clear()
                self._known[account] = (now + KEPT_S, held)
        return held

    def forget(self, account: AccountId) -> None:
        """Drop the roles of an account from the cache, because they have changed."""
        with self._lock:
            self._changes += 1
            self._known.pop(account, None)
