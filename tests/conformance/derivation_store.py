"""What a store of derivations promises. Subclasses give `stores`."""

from __future__ import annotations

from chain_maker import NOON, some_id
from tests.conformance.access_stores import dataset

from odf_protocol.instant import Instant
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.following import Problem
from odf_storage.stores.ports.values import JobId

LATER = Instant(NOON.ns + 1_000_000_000)
JOB, OTHER = JobId("1-a"), JobId("2-b")
PROBLEM = Problem("InvalidQuery", "no such column", {"line": 1})


class DerivationStoreContract:
    def test_place_and_what_is_due_change_together_or_not_at_all(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        assert store.cursor() == 0
        assert store.found_moves(expected=0, cursor=7, due={one: NOON})
        assert not store.found_moves(expected=0, cursor=9, due={one: LATER})
        assert store.cursor() == 7
        (row,) = store.due(now=LATER)
        assert (row.dataset, row.due_at, row.version) == (one, NOON, 1)

    def test_unknown_datasets_are_never_due(self, stores: Stores) -> None:
        stores.derivations.found_moves(expected=0, cursor=1, due={some_id("unknown"): NOON})
        assert stores.derivations.due(now=LATER) == []
        assert stores.derivations.find(some_id("unknown")) is None

    def test_what_is_due_does_not_come_later(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        store.found_moves(expected=1, cursor=2, due={one: LATER})
        assert [row.due_at for row in store.due(now=NOON)] == [NOON]

    def test_nothing_is_due_before_its_time(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: LATER})
        assert store.due(now=NOON) == []

    def test_the_next_that_is_due_may_get_a_job(self, stores: Stores) -> None:
        one, other, store = dataset(stores), dataset(stores, "other"), stores.derivations
        assert store.next_due() is None
        store.found_moves(expected=0, cursor=1, due={one: NOON, other: LATER})
        assert store.next_due() == NOON
        store.submitted(one, version=0, job=JOB)
        assert store.next_due() == LATER
        store.decide(other, wanted=False)
        assert store.next_due() is None
        store.ended(one, job=JOB)
        assert store.next_due() == NOON
        store.ended(one, job=None, paused=True)
        assert store.next_due() is None

    def test_a_submitted_job_settles_what_was_due(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        store.submitted(one, version=1, job=JOB)
        assert store.due(now=LATER) == []
        assert [row.job for row in store.at_work()] == [JOB]
        store.ended(one, job=JOB)
        assert (store.due(now=LATER), store.at_work()) == ([], [])

    def test_what_came_in_meanwhile_is_not_lost(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        store.found_moves(expected=1, cursor=2, due={one: NOON})
        store.submitted(one, version=1, job=JOB)
        assert store.due(now=LATER) == []
        store.ended(one, job=JOB)
        assert [row.dataset for row in store.due(now=LATER)] == [one]

    def test_the_end_of_another_job_changes_nothing(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        store.submitted(one, version=1, job=JOB)
        store.ended(one, job=OTHER, problem=PROBLEM, paused=True)
        row = store.find(one)
        assert row is not None
        assert (row.job, row.problem, row.paused) == (JOB, None, False)

    def test_a_failed_attempt_is_due_again_later(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        store.submitted(one, version=1, job=JOB)
        store.ended(one, job=JOB, problem=PROBLEM, retry_at=LATER)
        assert store.due(now=NOON) == []
        (row,) = store.due(now=LATER)
        assert (row.attempts, row.problem) == (1, PROBLEM)
        store.submitted(one, version=1, job=OTHER)
        store.ended(one, job=OTHER)
        row_after = store.find(one)
        assert row_after is not None
        assert (row_after.attempts, row_after.problem) == (0, None)

    def test_paused_ones_wait_until_they_are_resumed(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        store.submitted(one, version=1, job=JOB)
        store.ended(one, job=JOB, problem=PROBLEM, paused=True)
        store.found_moves(expected=1, cursor=2, due={one: NOON})
        assert store.due(now=LATER) == []
        store.found_moves(expected=2, cursor=3, due={}, resumed=[one])
        assert [row.dataset for row in store.due(now=LATER)] == [one]

    def test_a_job_by_hand_resumes_and_is_watched(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.decide(one, wanted=False)
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        assert store.due(now=LATER) == []
        store.resume(one, job=JOB)
        assert [row.job for row in store.at_work()] == [JOB]
        store.ended(one, job=JOB)
        assert [row.dataset for row in store.due(now=LATER)] == [one]

    def test_a_row_goes_with_its_dataset(self, stores: Stores) -> None:
        one, store = dataset(stores), stores.derivations
        store.found_moves(expected=0, cursor=1, due={one: NOON})
        stores.forget_dataset(one)
        assert store.find(one) is None
        assert store.due(now=LATER) == []
