"""What every `JobQueue` promises of repeated requests, and of rows that were set aside."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from chain_maker import some_id
from index_parts import ManualClock
from tests.conformance.job_queue import DONE, claim, spec

from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import LeaseLost, RequestKeyReused
from odf_storage.stores.ports.values import (
    AccountId,
    Failed,
    JobId,
    JobSpec,
    RequestKey,
    Submitted,
    Succeeded,
)


def request(clock: ManualClock, body: bytes = b"rows", key: str = "k") -> RequestKey:
    until = clock.after(timedelta(hours=1))
    return RequestKey(some_id(), AccountId("did:odf:alice"), key, Multihash.of(body), until)


def submit_request(queue: JobQueue, spec: JobSpec, key: RequestKey) -> Submitted:
    """The job of a request; raises why it has none."""
    (submitted,) = queue.submit_all([(spec, key)])
    if not isinstance(submitted, Submitted):
        raise submitted
    return submitted


class RequestContract:
    """Repeated requests. The fixture `queue` has a dataset `some_id()`, where that matters."""

    def test_a_repeated_request_is_the_same_job_waiting_running_and_done(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        assert queue.repeated(request(clock)) is None
        first = submit_request(queue, spec(), request(clock)).job
        assert submit_request(queue, spec(), request(clock)).job == first
        assert queue.repeated(request(clock)) == first
        claim(queue)
        assert submit_request(queue, spec(), request(clock)).job == first
        queue.finish(first, "w1", DONE)
        assert submit_request(queue, spec(), request(clock)).job == first
        assert submit_request(queue, spec(), request(clock, key="other")).job != first

    def test_another_request_under_the_same_key_is_refused(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        submit_request(queue, spec(), request(clock))
        with pytest.raises(RequestKeyReused):
            submit_request(queue, spec(), request(clock, b"other rows"))
        with pytest.raises(RequestKeyReused):
            queue.repeated(request(clock, b"other rows"))
        assert len(queue.page()) == 1

    def test_what_is_wrong_with_one_request_is_no_matter_of_those_beside_it(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        first = submit_request(queue, spec(), request(clock)).job
        asked = [
            (spec(), None),
            (spec(), request(clock, b"other rows")),
            (spec(), request(clock)),
            (spec(), request(clock, key="other")),
        ]
        plain, refused, repeated, other = queue.submit_all(asked)
        assert isinstance(plain, Submitted)
        assert isinstance(refused, RequestKeyReused)
        assert repeated == Submitted(first, repeated=True)
        assert isinstance(other, Submitted)
        assert len({first, plain.job, other.job}) == 3

    def test_a_request_that_failed_or_was_cancelled_is_tried_again(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        first = submit_request(queue, spec(), request(clock)).job
        claim(queue)
        queue.finish(first, "w1", Failed("BadRow", "line 3"))
        assert queue.repeated(request(clock)) is None
        second = submit_request(queue, spec(), request(clock)).job
        assert second != first
        queue.cancel(second)
        assert submit_request(queue, spec(), request(clock)).job not in (first, second)

    def test_an_expired_key_is_free(self, queue: JobQueue, clock: ManualClock) -> None:
        first = submit_request(queue, spec(), request(clock)).job
        clock.advance(timedelta(hours=1))
        assert submit_request(queue, spec(), request(clock, b"other rows")).job != first

    def test_ended_jobs_are_forgotten_but_those_that_answer_repeats(
        self, queue: JobQueue, clock: ManualClock
    ) -> None:
        kept = submit_request(queue, spec(), request(clock)).job
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
        first = submit_request(queue, spec(), request(clock)).job
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
            answers.append(submit_request(queue, spec(), request(clock)))

        submitters = [threading.Thread(target=submit) for _ in range(8)]
        for submitter in submitters:
            submitter.start()
        for submitter in submitters:
            submitter.join()
        assert len({answer.job for answer in answers}) == 1
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7
