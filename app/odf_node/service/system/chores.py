"""Upkeep by itself: one of the services of a node collects garbage, checks, scrubs, compacts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import compact_job
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.gc import collect_garbage, sweep_merge_states
from odf_storage.datasets.upkeep.marks import entries
from odf_storage.datasets.upkeep.turns import ChoreTurns
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.environment import BaseSettings
from odf_storage.stores.ports.accounts import AuditEntry
from odf_storage.stores.ports.values import JobSpec, JobStatus

from ..jobs.job_watch import FINISHED
from ..processes.follower import Stopping
from .recurring import RETRY_S, Recurring

DAY_S = 86_400.0
FIRST_S = 60.0
"""Pause after a start, so that the first answers compete with no upkeep."""
POLL_S = 0.5
_log = logging.getLogger("odf.node")


class UpkeepSettings(BaseSettings):
    """Read from `ODF_UPKEEP_…`."""

    PREFIX: ClassVar[str] = "ODF_UPKEEP_"

    gc_every_s: float = Field(
        DAY_S,
        ge=0,
        description="Seconds from a removal of garbage to the next; 0: by command alone.",
    )
    fsck_every_s: float = Field(
        7 * DAY_S,
        ge=0,
        description="Seconds from a look whether every object is there to the next; 0: by command.",
    )
    scrub_every_s: float = Field(
        0.0,
        ge=0,
        description="Seconds from a reading of every byte to the next, which puts damaged objects "
        "aside and heals them; 0: by command. A bucket may charge for it.",
    )
    scrub_bytes_s: int = Field(
        20 << 20, ge=1024, description="Bytes a second that a scrub reads at most."
    )
    compact_every_s: float = Field(
        0.0,
        ge=0,
        description="Seconds from a compaction of datasets with many small slices to the next; 0: "
        "by command alone. Copies elsewhere of what was compacted have diverged.",
    )
    compact_saves: int = Field(
        1000, ge=1, description="Blocks that the compaction of a dataset saves, or it is left out."
    )


GoOn = Callable[..., None]
Work = Callable[[Stores, GoOn], dict[str, int]]


@dataclass(frozen=True)
class Chore:
    """What is to be done, and how often. Its work calls what it is given, which may stop it, and
    returns what it found."""

    name: str
    every_s: float
    work: Work


def chores_of(settings: UpkeepSettings, data: Path) -> Iterator[Chore]:
    """Yield the chores that the settings ask for."""
    every = {
        "gc": (settings.gc_every_s, partial(_collect, data)),
        "fsck": (settings.fsck_every_s, partial(_check, None)),
        "scrub": (settings.scrub_every_s, partial(_check, settings.scrub_bytes_s)),
        "compact": (settings.compact_every_s, partial(_compact, settings.compact_saves)),
    }
    for name, (every_s, work) in every.items():
        if every_s:
            yield Chore(name, every_s, work)


def _collect(data: Path, stores: Stores, go_on: GoOn) -> dict[str, int]:
    report = collect_garbage(stores, progress=go_on)
    swept = sweep_merge_states(stores, data)
    removed = report.removed.values()
    return {
        "removed": sum(one.count for one in removed),
        "bytes": sum(one.size for one in removed),
        "mergeStates": swept,
    }


def _check(bytes_s: int | None, stores: Stores, go_on: GoOn) -> dict[str, int]:
    """Look whether all objects are there; at a rate of bytes, also whether they are whole."""
    from odf_storage.datasets.upkeep.compare import CompareThrottle  # a start needs none of it
    from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores

    is_scrub, throttle = bytes_s is not None, CompareThrottle(bytes_s)
    options = FsckOptions(rehash=is_scrub, throttle=throttle, quarantine=is_scrub, repair=is_scrub)
    report = check_stores(stores, options, progress=go_on)
    for finding in report.problems[:10]:
        _log.error("upkeep found: %s %s: %s", finding.reason, finding.dataset, finding.message)
    return {"datasets": report.datasets, "problems": report.problem_count}


def _compact(least: int, stores: Stores, go_on: GoOn) -> dict[str, int]:
    """Have datasets compacted by workers, one at a time on the whole node, so that the work of
    people has all other workers. What derivatives or mirrors here depend on stays as it is."""
    from odf_storage.datasets.rewrite.compact import plan_hard  # a start needs none of it
    from odf_storage.datasets.rewrite.compaction import SliceLimits

    compacted = failed = 0
    for entry in entries(stores.registry):
        go_on()
        is_own = entry.kind is DatasetKind.Root and stores.mirrors.find(entry.id) is None
        if not is_own or stores.blocks.count(entry.id) <= least:
            continue
        if stores.registry.dependants(entry.id):
            continue
        plan = plan_hard(Dataset(entry, stores), SliceLimits())
        if len(plan.old) - len(plan.steps) < least:
            continue
        key = f"{compact_job.KIND}:{entry.id}:upkeep"
        spec = JobSpec(compact_job.KIND, entry.id, {}, lock=str(entry.id), dedup_key=key)
        job = stores.jobs.submit(spec)
        while (status := stores.jobs.get(job).status) not in FINISHED:
            time.sleep(POLL_S)
            go_on()
        compacted += status is JobStatus.SUCCEEDED
        failed += status is JobStatus.FAILED
    return {"compacted": compacted, "failed": failed}


class ChoreRunner(Recurring):
    """Does a chore whenever it is this service's turn."""

    def __init__(self, stores: Stores, chore: Chore, clock: Clock, holder: str) -> None:
        name = f"upkeep {chore.name}"
        super().__init__(name, stores, clock, chore.every_s, first_s=min(FIRST_S, chore.every_s))
        self._chore = chore
        self._turns = ChoreTurns(stores.projections, chore.name, holder, clock)

    def _try(self) -> float:
        wait_s = self._turns.take(self._every_s)
        if wait_s > 0:
            return min(wait_s, self._every_s)
        try:
            found = self._chore.work(self._stores, self._held)
        except Stopping:
            self._turns.end(0.0, found={}, problem="it was stopped; the next service goes on")
            return self._every_s
        except Exception as error:
            return self._fail(error)
        _log.info("upkeep: %s is done: %s", self._chore.name, found)
        self._turns.end(self._every_s, found=found)
        self._record("done", **found)
        return self._every_s

    def _held(self, *_: object) -> None:
        self._go_on()
        if not self._turns.renew():
            raise Stopping

    def _fail(self, error: Exception) -> float:
        is_told = isinstance(error, NodeError)
        problem = (
            error.message if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
        )
        _log.error(
            "upkeep: %s failed: %s", self._chore.name, problem, exc_info=None if is_told else error
        )
        again_s = min(RETRY_S, self._every_s)
        self._turns.end(again_s, found={}, problem=problem)
        self._record("failed", problem=problem)
        return again_s

    def _record(self, outcome: str, **facts: object) -> None:
        done = AuditEntry(
            at=self._clock(),
            actor="node",
            action=self._chore.name,
            subject="ODF_UPKEEP",
            outcome=outcome,
            facts=facts,
        )
        self._stores.audit.record([done])
