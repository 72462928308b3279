"""Datasets whose polls fail, as all turns of a process know them: looked up once in a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from odf_protocol.identity import DatasetId
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.stores.ports import JobRecords
from odf_storage.stores.ports.values import Failing

MOST = 1_000
"""Limit of datasets that are looked up; those that fail for the longest are first."""


@dataclass
class FailingPolls:
    """Looks up at most every `each_s` seconds which datasets have polls that fail."""

    jobs: JobRecords
    each_s: float
    _until: float = 0.0
    _found: Mapping[DatasetId, Failing] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> Mapping[DatasetId, Failing]:
        with self._lock:
            if time.monotonic() >= self._until:
                found = self.jobs.failing(poll_job.KIND, limit=MOST)
                self._found = {each.dataset: each for each in found}
                self._until = time.monotonic() + self.each_s
            return self._found
