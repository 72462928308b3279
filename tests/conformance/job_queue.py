"""What every `JobQueue` promises. Subclasses give fixtures `queue` and `clock`."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from chain_maker import some_id
from index_parts import ManualClock

from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash
from odf_node.storage.stores.jobs.turns import GIVES_WAY_S
from odf_node.storage.stores.ports import JobQueue
from odf_node.storage.stores.ports.errors import JobNotFound, LeaseLost, RequestKeyReused
from odf_node.storage.stores.ports.values import (
    AccountId,
    Failed,
    Job,
    JobId,
    JobSpec,
    JobStatus,
    RequestKey,
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
        submitted = queue.submit_all(asked)
        assert list(submitted) == sorted(submitted)
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
        queue.submit_all([spec(), spec()])
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

    def test_jobs_of_one_lock_and_kind_are_claimed_together(self, queue: JobQueue) -> None:
        ours = [queue.submit(spec(lock="dataset")) for _ in range(4)]
        other = queue.submit(spec(lock="another"))
        [group] = queue.claim_groups("w1", ["ingest"], lease=LEASE, group_sizes={"ingest": 3})
        assert [job.id for job in group] == ours[:3]
        assert all(job.status is JobStatus.RUNNING and job.worker == "w1" for job in group)
        assert claimed(queue, "w2") == other
        assert claim(queue, "w3") is None
        for job in ours[:2]:
            queue.finish(job, "w1", DONE)
        assert claim(queue, "w3") is None
        queue.finish(ours[2], "w1", DONE)
        assert claimed(queue, "w3") == ours[3]

    def test_a_group_ends_before_a_job_of_another_kind(self, queue: JobQueue) -> None:
        first = queue.submit(spec(lock="dataset"))
        queue.submit(spec("poll", lock="dataset"))
        queue.submit(spec(lock="dataset"))
        [group] = queue.claim_groups("w1", ["ingest"], lease=LEASE, group_sizes={"ingest": 9})
        assert [job.id for job in group] == [first]

    def test_small_jobs_of_several_locks_are_claimed_together(self, queue: JobQueue) -> None:
        a = [queue.submit(spec(lock="a", body=b"1")) for _ in range(3)]
        large = queue.submit(spec(lock="b"))
        c = [queue.submit(spec(lock="c", body=b"2")), queue.submit(spec(lock="c"))]
        queue.submit(spec("poll", lock="d", body=b"3"))
        e = queue.submit(spec(lock="e", body=b"4"))
        both = {"lease": LEASE, "group_sizes": {"ingest": 2}}
        groups = queue.claim_groups("w1", ["ingest", "poll"], **both, groups=9)
        assert [[job.id for job in group] for group in groups] == [a[:2], c[:1], [e]]
        assert [job.spec.body for job in groups[0]] == [b"1", b"1"]
        assert [queue.get(job).worker for job in (*a, large, e)] == ["w1", "w1", None, None, "w1"]
        assert [
            [job.id for job in group] for group in queue.claim_groups("w2", ["ingest"], **both)
        ] == [[large]]
        assert queue.claim_groups("w2", ["ingest"], **both, groups=9) == []
        queue.finish(c[0], "w1", DONE)
        groups = queue.claim_groups("w2", ["ingest"], **both, groups=9)
        assert [[job.id for job in group] for group in groups] == [[c[1]]]

    def test_a_group_whose_worker_is_gone_is_claimed_again(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        ours = [queue.submit(spec(lock="dataset")) for _ in range(3)]
        queue.claim_groups("w1", ["ingest"], lease=LEASE, group_sizes={"ingest": 9})
        queue.finish(ours[0], "w1", DONE)
        clock.advance(LEASE)
        later = queue.submit(spec(lock="dataset"))
        [group] = queue.claim_groups("w2", ["ingest"], lease=LEASE, group_sizes={"ingest": 9})
        assert [job.id for job in group] == [*ours[1:], later]
        assert [job.attempt for job in group] == [2, 2, 1]
        with pytest.raises(LeaseLost):
            queue.finish(ours[1], "w1", DONE)

    @pytest.mark.parametrize("groups", [1, 16])
    def test_many_jobs_of_one_account_delay_another_by_one_job(
        self, queue: JobQueue, groups: int
    ) -> None:
        queue.submit_all([spec(lock=f"b{n}", account="bob") for n in range(40)])

        def taken() -> Job:
            [[job]] = queue.claim_groups("w1", ["ingest"], lease=LEASE, groups=groups)
            return job

        for each in range(3):
            job = taken()
            assert job.spec.account == "bob"
            asked = queue.submit(spec(lock=f"a{each}", account="alice"))
            queue.finish(job.id, "w1", DONE)
            assert taken().id == asked
            queue.finish(asked, "w1", DONE)

    def test_accounts_take_turns_and_each_has_its_oldest_job_first(self, queue: JobQueue) -> None:
        jobs = {who: [queue.submit(spec(account=who)) for _ in range(25)] for who in "abc"}
        for turn in range(25):
            taken = [claimed(queue) for _ in "abc"]
            assert taken == [jobs[who][turn] for who in "abc"]
            for job in taken:
                queue.finish(job, "w1", DONE)

    def test_an_account_whose_jobs_run_comes_behind_one_that_waits(self, queue: JobQueue) -> None:
        bobs = [queue.submit(spec(account="bob")) for _ in range(20)]
        assert [claimed(queue, "w1"), claimed(queue, "w2")] == bobs[:2]
        alices = [queue.submit(spec(account="alice")) for _ in range(4)]
        assert [claimed(queue, f"w{n}") for n in range(3, 8)] == [
            *alices[:2],
            bobs[2],
            alices[2],
            bobs[3],
        ]

    def test_small_jobs_that_are_claimed_together_are_of_all_accounts(
        self, queue: JobQueue
    ) -> None:
        for n in range(30):
            queue.submit(spec(lock=f"b{n}", body=b"1", account="bob"))
        asked = {queue.submit(spec(lock=f"a{n}", body=b"1", account="alice")) for n in range(2)}
        groups = queue.claim_groups(
            "w1", ["ingest"], lease=LEASE, group_sizes={"ingest": 9}, groups=4
        )
        assert len(groups) == 4
        assert asked < {job.id for group in groups for job in group}

    def test_a_job_that_was_begun_before_lets_others_go_first_for_some_time(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        poison = queue.submit(spec(lock="b", account="bob"))
        claim(queue)
        clock.advance(LEASE)
        alices = [queue.submit(spec(lock=f"a{n}", account="alice")) for n in range(30)]
        assert [claimed(queue, f"w{n}") for n in range(25)] == alices[:25]
        clock.advance(timedelta(seconds=GIVES_WAY_S))
        for job in alices[:25]:
            queue.cancel(job)
        assert poison in [claimed(queue, "w2"), claimed(queue, "w3")]

    def test_the_workers_that_ended_with_a_job_are_counted(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        job = queue.submit(spec(lock="a"))
        for attempt, deaths in ((1, 0), (2, 1), (3, 2)):
            taken = claim(queue)
            assert taken is not None
            assert (taken.id, taken.attempt, taken.deaths) == (job, attempt, deaths)
            clock.advance(LEASE)

    def test_a_job_that_ended_two_workers_runs_alone(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        ours = [queue.submit(spec(lock="a", body=b"1")) for _ in range(3)]
        other = queue.submit(spec(lock="b", body=b"1"))

        def groups() -> list[list[JobId]]:
            found = queue.claim_groups(
                "w1", ["ingest"], lease=LEASE, group_sizes={"ingest": 9}, groups=9
            )
            return [[job.id for job in group] for group in found]

        for _ in range(2):
            assert groups() == [ours, [other]]
            clock.advance(LEASE)
        assert {groups()[0][0], groups()[0][0]} == {ours[0], other}

    def test_a_job_that_is_put_back_rests_and_no_worker_is_said_to_have_ended(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        job = queue.submit(spec(lock="a"))
        claim(queue)
        queue.put_back(job, "w1", pause=LEASE)
        with pytest.raises(LeaseLost):
            queue.finish(job, "w1", DONE)
        assert claim(queue, "w2") is None
        clock.advance(LEASE)
        again = claim(queue, "w2")
        assert again is not None
        assert (again.id, again.attempt, again.deaths) == (job, 2, 0)

    def test_jobs_of_a_group_are_put_back_one_by_one(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        ours = [queue.submit(spec(lock="a")) for _ in range(3)]
        for pause in (LEASE, None):
            [group] = queue.claim_groups("w1", ["ingest"], lease=LEASE, group_sizes={"ingest": 9})
            assert [job.id for job in group] == ours
            for job in reversed(ours):
                queue.put_back(job, "w1", pause=pause)
            clock.advance(LEASE)
        assert claimed(queue) == ours[0]

    @pytest.mark.parametrize("dedup_key", [None, "one"])
    def test_a_job_that_is_given_back_waits_as_if_it_had_not_been_claimed(
        self, queue: JobQueue, dedup_key: str | None
    ) -> None:
        job = queue.submit(spec(lock="a", dedup_key=dedup_key))
        later = queue.submit(spec(lock="a"))
        claim(queue)
        queue.submit(spec(lock="b", dedup_key=dedup_key))
        queue.put_back(job, "w1")
        with pytest.raises(LeaseLost):
            queue.put_back(job, "w1")
        taken = [claim(queue, "w2"), claim(queue, "w3")]
        again = next(each for each in taken if each is not None and each.id == job)
        assert (again.attempt, again.deaths) == (1, 0)
        queue.finish(job, again.worker or "", DONE)
        assert claimed(queue, "w4") == later

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


def request(clock: ManualClock, body: bytes = b"rows", key: str = "k") -> RequestKey:
    until = clock.after(timedelta(hours=1))
    return RequestKey(some_id(), AccountId("did:odf:alice"), key, Multihash.of(body), until)


class RequestContract:
    """Repeated requests. The fixture `queue` has a dataset `some_id()`, where that matters."""

    def test_a_repeated_request_is_the_same_job_waiting_running_and_done(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        assert queue.repeated(request(clock)) is None
        first = queue.submit_request(spec(), request(clock)).job
        assert queue.submit_request(spec(), request(clock)).job == first
        assert queue.repeated(request(clock)) == first
        claim(queue)
        assert queue.submit_request(spec(), request(clock)).job == first
        queue.finish(first, "w1", DONE)
        assert queue.submit_request(spec(), request(clock)).job == first
        assert queue.submit_request(spec(), request(clock, key="other")).job != first

    def test_another_request_under_the_same_key_is_refused(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        queue.submit_request(spec(), request(clock))
        with pytest.raises(RequestKeyReused):
            queue.submit_request(spec(), request(clock, b"other rows"))
        with pytest.raises(RequestKeyReused):
            queue.repeated(request(clock, b"other rows"))
        assert len(queue.page()) == 1

    def test_a_request_that_failed_or_was_cancelled_is_tried_again(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        first = queue.submit_request(spec(), request(clock)).job
        claim(queue)
        queue.finish(first, "w1", Failed("BadRow", "line 3"))
        assert queue.repeated(request(clock)) is None
        second = queue.submit_request(spec(), request(clock)).job
        assert second != first
        queue.cancel(second)
        assert queue.submit_request(spec(), request(clock)).job not in (first, second)

    def test_an_expired_key_is_free(self, queue: JobQueue, clock: ManualClock) -> None:
        first = queue.submit_request(spec(), request(clock)).job
        clock.advance(timedelta(hours=1))
        assert queue.submit_request(spec(), request(clock, b"other rows")).job != first

    def test_ended_jobs_are_forgotten_but_those_that_answer_repeats(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        kept = queue.submit_request(spec(), request(clock)).job
        gone = queue.submit(spec())
        for job in (kept, gone):
            claim(queue)
            queue.finish(job, "w1", DONE)
        waiting = queue.submit(spec())
        clock.advance(timedelta(minutes=1))
        assert queue.prune(before=clock.now) == 1
        assert set(queue.get_all([kept, gone, waiting])) == {kept, waiting}
        clock.advance(timedelta(hours=1))
        assert queue.prune(before=clock.now) == 1

    def test_rows_that_were_set_aside_are_kept_apart_from_the_result(self, queue: JobQueue) -> None:
        jobs = [queue.submit(spec()) for _ in range(2)]
        for job, rejected in zip(jobs, (b"rows", None), strict=True):
            claim(queue)
            queue.finish(job, "w1", Succeeded({"rows": 3}, rejected))
        assert queue.get(jobs[0]).outcome == DONE
        assert [queue.rejected(job) for job in jobs] == [b"rows", None]
        assert queue.rejected(JobId("7-of-nobody")) is None

    def test_whose_lease_is_lost_keeps_no_rows(self, queue: JobQueue) -> None:
        job = queue.submit(spec())
        claim(queue)
        with pytest.raises(LeaseLost):
            queue.finish(job, "w2", Succeeded({}, b"rows"))
        assert queue.rejected(job) is None

    def test_rows_that_were_set_aside_are_forgotten_in_time_or_with_their_job(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        first = queue.submit_request(spec(), request(clock)).job
        claim(queue)
        queue.finish(first, "w1", Succeeded({}, b"rows"))
        clock.advance(timedelta(minutes=1))
        second = queue.submit(spec())
        claim(queue)
        queue.finish(second, "w1", Succeeded({}, b"rows"))
        assert queue.prune(before=Instant(0), rejected_before=clock.now) == 0
        assert [queue.rejected(job) for job in (first, second)] == [None, b"rows"]
        clock.advance(timedelta(minutes=1))
        assert queue.prune(before=clock.now) == 1
        assert queue.rejected(second) is None

    def test_racing_repeats_get_one_job_and_are_told_apart_from_the_first(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        barrier, answers = threading.Barrier(8), []

        def submit() -> None:
            barrier.wait()
            answers.append(queue.submit_request(spec(), request(clock)))

        submitters = [threading.Thread(target=submit) for _ in range(8)]
        for submitter in submitters:
            submitter.start()
        for submitter in submitters:
            submitter.join()
        assert len({answer.job for answer in answers}) == 1
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7
