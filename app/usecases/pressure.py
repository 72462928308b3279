"""Back-pressure: no more work is taken than may wait.

The queue is counted now and then; in between, what this process adds is counted here. Several
processes may so exceed a limit a little.
"""

from __future__ import annotations

import threading
import time

from protocol.errors import LimitExceeded
from protocol.identity import DatasetId
from storage.ports import JobQueue
from storage.values import AccountId, Backlog

FRESH_S = 0.5
RETRY_AFTER_S = 2


class QueueFull(LimitExceeded):
    """As much waits for the dataset, or of the account, as may."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"{limit} jobs of this {what} are waiting already; try again later",
            limit=f"max_waiting_{what}",
            value=limit,
            retry_after_s=RETRY_AFTER_S,
        )


class NodeBusy(LimitExceeded):
    """As much waits on the node as may."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} jobs are waiting on this node already; try again later",
            limit="max_waiting_node",
            value=limit,
            retry_after_s=RETRY_AFTER_S,
        )


class Pressure:
    """How much waits, against how much may."""

    def __init__(self, jobs: JobQueue, *, dataset: int, account: int, node: int) -> None:
        self._jobs, self._dataset, self._account, self._node = jobs, dataset, account, node
        self._lock = threading.Lock()
        self._known, self._until = Backlog(), 0.0
        self._added = 0

    def admit(self, dataset: DatasetId, account: AccountId | None) -> None:
        """One more job is to wait. Raises `QueueFull`, `NodeBusy`."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._known = self._jobs.backlog()
                self._added = 0
                self._until = time.monotonic() + FRESH_S
            known = self._known
            if known.total + self._added >= self._node:
                raise NodeBusy(self._node)
            if known.by_dataset.get(dataset, 0) >= self._dataset:
                raise QueueFull("dataset", self._dataset)
            if account is not None and known.by_account.get(account, 0) >= self._account:
                raise QueueFull("account", self._account)
            self._added += 1
            known.by_dataset[dataset] = known.by_dataset.get(dataset, 0) + 1
            if account is not None:
                known.by_account[account] = known.by_account.get(account, 0) + 1
