"""What every `JobQueue` promises of whose job comes next, and of jobs that are claimed together."""

from __future__ import annotations

from datetime import timedelta

import pytest
from index_parts import ManualClock
from tests.conformance.job_queue import DONE, LEASE, claim, claimed, spec

from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.jobs.sql_claim import GIVES_WAY_S
from odf_storage.stores.ports.errors import LeaseLost
from odf_storage.stores.ports.values import (
    Job,
    JobId,
    JobStatus,
)


class JobTurnsContract:
    """Subclasses give fixtures `queue` and `clock`."""

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
        queue.submit_all([(spec(lock=f"b{n}", account="bob"), None) for n in range(40)])

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
