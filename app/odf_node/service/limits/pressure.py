"""Back-pressure: refuse jobs when too many are waiting.

The queue is counted from time to time; in between, this module counts the jobs that this process
adds. So several processes together may slightly exceed a limit.
"""

from __future__ import annotations

import threading
import time

from odf_protocol.errors import LimitExceeded
from odf_protocol.identity import DatasetId
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.values import AccountId, Backlog

FRESH_S = 0.5
RETRY_AFTER_S = 2


def queue_full(what: str, limit: int) -> LimitExceeded:
    """The limit of waiting jobs of the dataset or the account is reached."""
    return LimitExceeded(
        "QueueFull",
        f"{limit} jobs of this {what} are waiting already; try again later",
        limit=f"max_waiting_{what}",
        value=limit,
        setting=f"ODF_NODE_MAX_WAITING_{what.upper()}",
        retry_after_s=RETRY_AFTER_S,
    )


class Pressure:
    """The number of waiting jobs, and its limits."""

    def __init__(self, jobs: JobQueue, *, dataset: int, account: int, node: int) -> None:
        self._jobs, self._dataset, self._account, self._node = jobs, dataset, account, node
        self._lock = threading.Lock()
        self._known, self._until = Backlog(), 0.0
        self._added = 0

    def admit(self, dataset: DatasetId | None, account: AccountId | None) -> None:
        """Count one more job, of the dataset and the account that are given. Raises `QueueFull`,
        `NodeBusy`."""
        with self._lock:
            if time.monotonic() >= self._until or self._refusal(dataset, account) is not None:
                self._known = self._jobs.backlog()  # an outdated count must not refuse a job
                self._added = 0
                self._until = time.monotonic() + FRESH_S
            refusal = self._refusal(dataset, account)
            if refusal is not None:
                raise refusal
            self._added += 1
            counts = self._known.by_dataset, self._known.by_account
            if dataset is not None:
                counts[0][dataset] = counts[0].get(dataset, 0) + 1
            if account is not None:
                counts[1][account] = counts[1].get(account, 0) + 1

    def _refusal(
        self, dataset: DatasetId | None, account: AccountId | None
    ) -> LimitExceeded | None:
        """Return the error if a limit is reached by the known counts, else None."""
        known = self._known
        if known.total + self._added >= self._node:
            return LimitExceeded(
                "NodeBusy",
                f"{self._node} jobs are waiting on this node already; try again later",
                limit="max_waiting_node",
                value=self._node,
                setting="ODF_NODE_MAX_WAITING_NODE",
                retry_after_s=RETRY_AFTER_S,
            )
        if dataset is not None and known.by_dataset.get(dataset, 0) >= self._dataset:
            return queue_full("dataset", self._dataset)
        if account is not None and known.by_account.get(account, 0) >= self._account:
            return queue_full("account", self._account)
        return None
