"""Threads of the service that claim mirror jobs, run them and report their outcome.

The service does transfers, because workers have no access to other nodes. Several services share
the queue. If one is killed, another one continues its pulls, and does not fetch verified objects
again.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetRef
from odf_storage.datasets.job_payloads import heal_job, mirror_job
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import LeaseLost
from odf_storage.stores.ports.values import AccountId, Failed, Job, JobOutcome, Succeeded

from ..errors import INTERNAL, INTERNAL_MESSAGE
from ..processes.follower import Stopping
from .mirrors import Mirrors

MIRROR_TURN_S = 600.0
"""Seconds after which a pull lets other mirrors go first, and goes on later."""

LEASE = timedelta(seconds=60)
BEAT_S = 15.0
SHARE = 4
"""An account has one of so many threads at a time."""
KINDS = (mirror_job.KIND, heal_job.FETCH)
_log = logging.getLogger("odf.mirror")


class TurnOver(Stopping):
    """The pull stops, because others wait and its turn has taken long; it goes on later."""


class MirrorRunner:
    """Threads that pull the mirrors of one node until `stop`. An account has a quarter of them."""

    def __init__(
        self,
        mirrors: Mirrors,
        *,
        threads: int,
        poll_s: float,
        turn_s: float,
        is_shared: bool = True,
    ) -> None:
        """`turn_s` limits a pull in seconds, after which others go first; `is_shared` is false if
        all mirrors are of one account."""
        self._mirrors, self._poll_s, self._turn_s = mirrors, poll_s, turn_s
        self._each = max(1, threads // SHARE) if is_shared else threads
        self._busy: Counter[AccountId | None] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._name = f"mirror-{secrets.token_hex(4)}"
        self._threads = [
            threading.Thread(target=self._work, args=(n,), name=f"mirror-{n}", daemon=True)
            for n in range(1, threads + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads. A running pull stops at its next step."""
        self._stop.set()
        self._mirrors.wake_up.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def _work(self, number: int) -> None:
        worker, wake_up = f"{self._name}-{number}", self._mirrors.wake_up
        while not self._stop.is_set():
            try:
                wake_up.clear()
                job = self._mirrors.stores.jobs.claim(worker, KINDS, lease=LEASE)
                if job is not None and self._in_its_share(job, worker):
                    continue
            except Exception:  # the database may be busy or restarting: retry later
                _log.exception("no mirror could be looked for")
            wake_up.wait(self._poll_s)

    def _in_its_share(self, job: Job, worker: str) -> bool:
        """Run the job; put it back, and return False, if its account has its share already."""
        account = job.spec.account
        with self._lock:
            is_free = self._busy[account] < self._each
            self._busy[account] += is_free
        if not is_free:
            self._put_back(job, worker)
            return False
        try:
            self._run(job, worker)
        finally:
            with self._lock:
                self._busy[account] -= 1
        return True

    def _put_back(self, job: Job, worker: str) -> None:
        with suppress(LeaseLost):  # cancelled, or taken over
            pause = timedelta(seconds=self._poll_s)
            self._mirrors.stores.jobs.put_back(job.id, worker, pause=pause)

    def _run(self, job: Job, worker: str) -> None:
        jobs = self._mirrors.stores.jobs
        progress = _Beating(jobs, job, worker, self._stop, turn_s=self._turn_s)
        try:
            with progress:
                outcome = self._outcome(job, progress)
        except TurnOver:
            self._put_back(job, worker)
            return
        except Stopping:
            return  # after its lease ends, another service claims the job
        try:
            self._mirrors.stores.jobs.finish(job.id, worker, outcome)
        except LeaseLost:
            _log.warning("a pull of %s was taken over or cancelled", job.spec.dataset)
            return
        if isinstance(outcome, Failed):
            _log.warning("mirror %s: %s: %s", job.spec.dataset, outcome.error, outcome.message)

    def _outcome(self, job: Job, progress: _Beating) -> JobOutcome:
        try:
            if job.spec.kind == heal_job.FETCH:
                return Succeeded(heal_job.to_json(self._fetch(job)))
            if job.spec.dataset is None:
                raise BadInput("MalformedMirrorJob", "a mirror job names no dataset")
            try:
                payload = mirror_job.payload_of(job.spec.payload)
            except ValueError as bad:
                raise BadInput(
                    "MalformedMirrorJob", f"a mirror job cannot be read: {bad}"
                ) from None
            entry = self._mirrors.stores.registry.get(DatasetRef(id=job.spec.dataset))
            from .mirror_pull import pull_mirror  # importing the client takes long

            receipt = pull_mirror(self._mirrors, entry, force=payload.force, progress=progress)
            return Succeeded(mirror_job.to_json(receipt))
        except Stopping:
            raise
        except NodeError as error:
            return Failed.of(error)
        except Exception:
            _log.exception("mirror %s failed inside", job.spec.dataset)
            return Failed(INTERNAL, INTERNAL_MESSAGE)

    def _fetch(self, job: Job) -> heal_job.HealReceipt:
        """Fetch an object that is damaged or missing here. Raises `MalformedMirrorJob`, and the
        errors of `fetch_object`."""
        from .mirror_pull import fetch_object

        try:
            key = heal_job.key_of(job.spec)
        except ValueError as bad:
            raise BadInput("MalformedMirrorJob", f"a healing job cannot be read: {bad}") from None
        return fetch_object(self._mirrors, key)


class _Beating:
    """Extends the lease of a job during its pull. It ends the pull when the lease is lost or the
    service stops."""

    def __init__(
        self, jobs: JobQueue, job: Job, worker: str, stop: threading.Event, *, turn_s: float
    ) -> None:
        self._until = time.monotonic() + turn_s
        self._jobs, self._job, self._worker, self._stop = jobs, job, worker, stop
        self._lost, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name="mirror-lease", daemon=True)

    def __enter__(self) -> _Beating:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._done.wait(BEAT_S):
            try:
                self._jobs.extend(self._job.id, self._worker, lease=LEASE)
            except LeaseLost:
                self._lost.set()
                return
            except Exception:  # the next attempt may succeed
                _log.exception("lease of a mirror job not extended")

    def _go_on(self) -> None:
        if self._stop.is_set() or self._lost.is_set():
            raise Stopping

    # Methods of `Progress`, which a pull calls at its steps
    def expect_blocks(self, count: int) -> None:  # noqa: ARG002
        self._go_on()

    def expect_objects(self, count: int, size: int) -> None:  # noqa: ARG002
        self._go_on()

    def block(self) -> None:
        self._go_on()

    def object_bytes(self, size: int) -> None:  # noqa: ARG002
        self._go_on()

    def object_done(self) -> None:
        self._go_on()
        if time.monotonic() >= self._until:  # an object that arrived is not fetched again
            raise TurnOver("the turn of the pull is over")

    def committing(self) -> None:
        self._go_on()
