"""What every `JobQueue` promises. Subclasses give fixtures `queue` and `clock`."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from chain_maker import some_id
from index_parts import ManualClock

from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import JobNotFound, LeaseLost
from odf_storage.stores.ports.values import (
    AccountId,
    Failed,
    Job,
    JobId,
    JobOutcome,
    JobSpec,
    JobStatus,
    Succeeded,
)

LEASE = timedelta(seconds=30)
DONE = Succeeded({"rows": 3})


def spec(
    kind: str = "ingest",
    *,
    lock: str | None = None,
    dedup_key: str | None = None,
    body: bytes | None = None,
    account: str | None = None,
    **payload: object,
) -> JobSpec:
    asking = None if account is None else AccountId(account)
    return JobSpec(kind, some_id(), payload, lock, dedup_key, asking, body=body)


def claim(queue: JobQueue, worker: str = "w1", kind: str = "ingest") -> Job | None:
    return queue.claim(worker, [kind], lease=LEASE)


def claimed(queue: JobQueue, worker: str = "w1") -> JobId:
    job = claim(queue, worker)
    assert job is not None
    return job.id


class JobQueueContract:
    def test_a_submitted_job_waits(self, queue: JobQueue, clock: ManualClock) -> None:
        job = queue.get(queue.submit(spec(upload="f16", nested={"a": [1, None, "\0é"]})))
        assert job.status is JobStatus.WAITING
        assert job.spec == spec(upload="f16", nested={"a": [1, None, "\0é"]})
        assert (job.attempt, job.worker, job.outcome) == (0, None, None)
        assert job.submitted_at == clock.now

    def test_a_claimed_job_runs_for_the_time_of_its_lease(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        submitted = queue.submit(spec())
        job = claim(queue)
        assert job is not None
        assert (job.id, job.status, job.worker) == (submitted, JobStatus.RUNNING, "w1")
        assert job.attempt == 1
        assert job.lease_until == clock.after(LEASE)
        assert queue.get(submitted) == job

    def test_jobs_are_claimed_once_and_in_the_order_of_submission(self, queue: JobQueue) -> None:
        submitted = [queue.submit(spec()) for _ in range(3)]
        assert submitted == sorted(submitted)
        assert [claimed(queue) for _ in submitted] == submitted
        assert claim(queue) is None

    def test_jobs_submitted_together_keep_their_order(self, queue: JobQueue) -> None:
        asked = [spec(n=n, body=b"%d" % n, lock=f"{n}") for n in range(300)]
        submitted = [each.job for each in queue.submit_all([(one, None) for one in asked])]
        assert submitted == sorted(submitted)
        assert [queue.get(job).spec for job in submitted[::99]] == asked[::99]
        assert claimed(queue) == submitted[0]
        assert list(queue.submit_all([])) == []

    def test_only_wanted_kinds_are_claimed(self, queue: JobQueue) -> None:
        queue.submit(spec("verify"))
        assert claim(queue) is None
        assert queue.claim("w1", [], lease=LEASE) is None
        assert queue.claim("w1", ["ingest", "verify"], lease=LEASE) is not None

    def test_a_waiting_job_of_the_same_key_is_the_same_job(self, queue: JobQueue) -> None:
        first = queue.submit(spec(dedup_key="batch"))
        assert queue.submit(spec(dedup_key="batch")) == first
        assert queue.submit(spec(dedup_key="other")) != first
        assert queue.submit(spec()) != queue.submit(spec())

    def test_keys_may_be_long(self, queue: JobQueue) -> None:
        """They are made of what was asked for: blocks and inputs by their hashes and ids."""
        first = queue.submit(spec(dedup_key="batch" * 200))
        assert queue.submit(spec(dedup_key="batch" * 200)) == first
        assert queue.submit(spec(dedup_key="batch" * 200 + "s")) != first

    def test_once_started_a_job_no_longer_stands_for_its_key(self, queue: JobQueue) -> None:
        first = queue.submit(spec(dedup_key="batch"))
        claim(queue)
        assert queue.submit(spec(dedup_key="batch")) != first

    def test_two_jobs_of_one_lock_never_run_together(self, queue: JobQueue) -> None:
        first, second = (queue.submit(spec(lock="dataset")) for _ in range(2))
        assert claimed(queue) == first
        assert claim(queue, "w2") is None
        queue.finish(first, "w1", DONE)
        assert claimed(queue, "w2") == second

    def test_a_locked_job_does_not_hold_up_others(self, queue: JobQueue) -> None:
        queue.submit(spec(lock="dataset"))
        queue.submit(spec(lock="dataset"))
        other = queue.submit(spec(lock="another"))
        claim(queue)
        assert claimed(queue) == other

    def test_jobs_of_one_lock_keep_their_order_across_kinds(self, queue: JobQueue) -> None:
        queue.submit(spec("transform", lock="dataset"))
        queue.submit(spec(lock="dataset"))
        assert claim(queue) is None
        assert claim(queue, kind="transform") is not None

    def test_an_expired_lease_makes_a_job_claimable_again(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        job = queue.submit(spec(lock="dataset"))
        claim(queue)
        clock.advance(LEASE)
        again = claim(queue, "w2")
        assert again is not None
        assert (again.id, again.worker, again.attempt) == (job, "w2", 2)

    def test_the_late_worker_has_lost_its_lease(self, queue: JobQueue, clock: ManualClock) -> None:
        job = queue.submit(spec())
        claim(queue)
        clock.advance(LEASE)
        claim(queue, "w2")
        with pytest.raises(LeaseLost):
            queue.extend(job, "w1", lease=LEASE)
        with pytest.raises(LeaseLost):
            queue.finish(job, "w1", DONE)
        queue.finish(job, "w2", DONE)

    def test_a_clock_that_was_hours_ahead_delays_a_lost_job_by_one_lease(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        lost, resting = queue.submit(spec(lock="a")), queue.submit(spec(lock="b"))
        clock.advance(timedelta(hours=2))
        assert {claim(queue).id, claim(queue).id} == {lost, resting}
        queue.put_back(resting, "w1", pause=timedelta(hours=3))
        clock.advance(timedelta(hours=-2))
        assert claim(queue, "w2") is None  # its worker may live, and would extend it
        assert queue.get(lost).lease_until == clock.after(LEASE)
        assert queue.get(resting).lease_until == clock.after(timedelta(hours=5))
        queue.extend(lost, "w1", lease=LEASE)
        clock.advance(LEASE)
        again = claim(queue, "w2")
        assert again is not None
        assert again.id == lost

    def test_a_worker_nobody_replaced_may_still_finish(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        job = queue.submit(spec())
        claim(queue)
        clock.advance(LEASE)
        queue.finish(job, "w1", DONE)
        assert claim(queue, "w2") is None

    def test_an_extended_lease_is_not_claimed(self, queue: JobQueue, clock: ManualClock) -> None:
        job = queue.submit(spec())
        claim(queue)
        clock.advance(LEASE / 2)
        queue.extend(job, "w1", lease=LEASE)
        clock.advance(LEASE / 2)
        assert claim(queue, "w2") is None
        assert queue.get(job).lease_until == clock.after(LEASE / 2)

    @pytest.mark.parametrize(
        ("outcome", "status"),
        [
            (Succeeded({"rows": 3}), JobStatus.SUCCEEDED),
            (Failed("MalformedInput", "line 3", {"line": 3}), JobStatus.FAILED),
        ],
    )
    def test_a_finished_job_keeps_its_outcome(
        self, queue: JobQueue, clock: ManualClock, outcome: Succeeded | Failed, status: JobStatus
    ) -> None:
        job = queue.submit(spec())
        claim(queue)
        queue.finish(job, "w1", outcome)
        finished = queue.get(job)
        assert (finished.status, finished.outcome) == (status, outcome)
        assert (finished.finished_at, finished.lease_until) == (clock.now, None)
        with pytest.raises(LeaseLost):
            queue.finish(job, "w1", outcome)

    def test_an_outcome_is_text_that_every_reader_takes(self, queue: JobQueue) -> None:
        outcomes = [
            Failed("BadRow", "not \ud800", {"value": "\ud800", "x\udfff": [float("nan"), "\0é"]}),
            Succeeded({"warnings": ["\ud83d alone", "😀"], "n": 1}),
        ]
        queue.submit_all([(spec(), None), (spec(), None)])
        for outcome in outcomes:
            queue.finish(claimed(queue), "w1", outcome)
        told = [job.outcome for job in queue.page()]
        assert told == [
            Failed("BadRow", "not \\ud800", {"value": "\\ud800", "x\\udfff": ["nan", "\0é"]}),
            Succeeded({"warnings": ["\\ud83d alone", "😀"], "n": 1}),
        ]

    def test_an_error_keeps_its_branch(self, queue: JobQueue) -> None:
        job = queue.submit(spec())
        claim(queue)
        failed = Failed("BadRow", "line 3", {"line": 3}, "BadInput")
        queue.finish(job, "w1", failed)
        assert queue.get(job).outcome == failed

    def test_a_cancelled_job_is_not_claimed(self, queue: JobQueue) -> None:
        job = queue.submit(spec(dedup_key="batch"))
        queue.cancel(job)
        assert queue.get(job).status is JobStatus.CANCELLED
        assert claim(queue) is None
        assert queue.submit(spec(dedup_key="batch")) != job

    def test_the_worker_of_a_cancelled_job_has_lost_its_lease(self, queue: JobQueue) -> None:
        job = queue.submit(spec(lock="dataset"))
        claim(queue)
        queue.cancel(job)
        with pytest.raises(LeaseLost):
            queue.extend(job, "w1", lease=LEASE)
        queue.submit(spec(lock="dataset"))
        assert claim(queue) is not None

    def test_cancelling_a_finished_job_changes_nothing(self, queue: JobQueue) -> None:
        job = queue.submit(spec())
        claim(queue)
        queue.finish(job, "w1", DONE)
        queue.cancel(job)
        assert queue.get(job).status is JobStatus.SUCCEEDED

    @pytest.mark.parametrize("unknown", ["", "x", "00-", "000000000001-guess", "f" * 99, "1-\0"])
    def test_unknown_jobs_are_not_found(self, queue: JobQueue, unknown: str) -> None:
        queue.submit(spec())
        job = JobId(unknown)
        with pytest.raises(JobNotFound):
            queue.get(job)
        with pytest.raises(JobNotFound):
            queue.cancel(job)
        with pytest.raises(JobNotFound):
            queue.extend(job, "w1", lease=LEASE)
        with pytest.raises(JobNotFound):
            queue.finish(job, "w1", DONE)

    def test_pages_go_through_the_jobs_of_a_dataset(self, queue: JobQueue) -> None:
        ours = [queue.submit(spec()) for _ in range(5)]
        queue.submit(JobSpec("ingest", some_id("other"), {}))
        queue.submit(JobSpec("sweep", None, {}))
        seen: list[str] = []
        while page := queue.page(dataset=some_id(), after=seen[-1] if seen else None, limit=2):
            assert len(page) <= 2
            seen += [job.id for job in page]
        assert seen == ours
        assert len(queue.page()) == 7

    def test_racing_workers_share_the_jobs_and_respect_locks(self, queue: JobQueue) -> None:
        for number in range(24):
            queue.submit(spec(lock=f"dataset {number % 6}"))
        held: list[str] = []
        guard, failures, done = threading.Lock(), [], []

        def work(worker: str) -> None:
            while (job := claim(queue, worker)) is not None or len(done) < 24:
                if job is None:
                    continue
                with guard:
                    if job.spec.lock in held:
                        failures.append(job)
                    held.append(str(job.spec.lock))
                with guard:
                    held.remove(str(job.spec.lock))
                queue.finish(job.id, worker, DONE)
                with guard:
                    done.append(job.id)

        workers = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert failures == []
        assert len(set(done)) == len(done) == 24

    def test_racing_submitters_of_one_key_get_one_job(self, queue: JobQueue) -> None:
        barrier, ids = threading.Barrier(6), []

        def submit() -> None:
            barrier.wait()
            ids.append(queue.submit(spec(dedup_key="batch")))

        submitters = [threading.Thread(target=submit) for _ in range(6)]
        for submitter in submitters:
            submitter.start()
        for submitter in submitters:
            submitter.join()
        assert len(ids) == 6
        assert len(set(ids)) == 1

    def test_the_body_of_a_job_is_for_its_worker_and_goes_with_its_end(
        self, queue: JobQueue
    ) -> None:
        job = queue.submit(JobSpec("ingest", some_id(), {}, body=b"\0rows"))
        taken = claim(queue)
        assert taken is not None
        assert taken.spec.body == b"\0rows"
        queue.finish(job, "w1", DONE)
        assert queue.get(job).spec.body is None

    def test_a_job_tells_how_far_it_is(self, queue: JobQueue) -> None:
        job = queue.submit(spec())
        claim(queue)
        assert queue.get(job).progress is None
        queue.extend(job, "w1", lease=LEASE, progress={"phase": "read", "rows": 7})
        queue.extend(job, "w1", lease=LEASE)
        assert queue.get(job).progress == {"phase": "read", "rows": 7}

    def test_several_jobs_are_looked_up_at_once(self, queue: JobQueue) -> None:
        ours = [queue.submit(spec()) for _ in range(3)]
        found = queue.get_all([ours[0], ours[2], JobId("00000000ffff-x")])
        assert set(found) == {ours[0], ours[2]}
        assert queue.get_all([]) == {}
        assert queue.get_all(ours, ended=True) == {}
        first = claim(queue)
        assert first is not None
        queue.finish(first.id, "w1", DONE)
        queue.cancel(ours[2])
        assert set(queue.get_all(ours, ended=True)) == {first.id, ours[2]}

    def test_pages_go_backwards_and_by_kind_and_schedule(self, queue: JobQueue) -> None:
        first = queue.submit(spec())
        second = queue.submit(JobSpec("poll", some_id(), {}, schedule="nightly"))
        third = queue.submit(spec())
        assert [job.id for job in queue.page(newest_first=True)] == [third, second, first]
        assert [job.id for job in queue.page(newest_first=True, after=second)] == [first]
        assert [job.id for job in queue.page(kinds=["poll"])] == [second]
        assert [job.id for job in queue.page(schedule="nightly")] == [second]
        assert queue.page(schedule="other") == []

    def test_the_backlog_counts_what_waits(self, queue: JobQueue) -> None:
        alice = AccountId("did:odf:alice")
        for account in (alice, alice, None):
            queue.submit(JobSpec("ingest", some_id(), {}, account=account))
        queue.submit(JobSpec("ingest", some_id("other"), {}, account=alice))
        claim(queue)
        backlog = queue.backlog()
        assert backlog.total == 3
        assert backlog.by_dataset == {some_id(): 2, some_id("other"): 1}
        assert backlog.by_account == {alice: 2}

    def test_datasets_whose_last_jobs_of_a_kind_failed_are_told_with_how_many(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        def ended(dataset: str, outcome: JobOutcome | None, kind: str = "poll") -> JobId:
            clock.advance(timedelta(seconds=1))
            job = queue.submit(JobSpec(kind, some_id(dataset), {}))
            if outcome is None:
                queue.cancel(job)
            else:
                assert claim(queue, kind=kind) is not None
                queue.finish(job, "w1", outcome)
            return job

        failed = Failed("X", "no answer")
        ended("well", failed)
        ended("well", DONE)
        ended("later", DONE)
        first = ended("first", failed)
        since = clock.now
        later = ended("later", failed)
        ended("later", failed, kind="verify")
        ended("later", DONE, kind="verify")
        again = ended("first", failed)
        ended("first", None)
        assert first != again
        found = queue.failing("poll", limit=9)
        assert [(each.dataset, each.count, each.last) for each in found] == [
            (some_id("first"), 2, again),
            (some_id("later"), 1, later),
        ]
        assert (found[0].since, found[0].first) == (since, first)
        assert [each.last for each in queue.failing("poll", limit=1)] == [again]
        assert [
            each.count for each in queue.failing("poll", limit=9, dataset=some_id("first"))
        ] == [2]
        assert queue.failing("poll", limit=9, dataset=some_id("well")) == []
        assert queue.failing("verify", limit=9) == []
