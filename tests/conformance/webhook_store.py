"""What a store of webhooks promises. Subclasses give `stores`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from chain_maker import NOON, some_id
from tests.conformance.access_stores import ANNA, BERT, dataset, people

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.following import Problem
from odf_storage.stores.ports.values import AccountId, Failing, JobId
from odf_storage.stores.ports.webhooks import DeliveryAttempt, Webhook, WebhookState

LATER = Instant(NOON.ns + 60 * NANOS)
PROBLEM = Problem("ReceiverRefused", "the receiver answered 500", {"status": 500})
BLOCK = Multihash.of(b"a block")
MOST = 3


def hook(of: DatasetId, name: str = "wh_1", account: AccountId = ANNA.id) -> Webhook:
    return Webhook(
        id=name,
        dataset=of,
        account=account,
        url="https://example.com/hook",
        sealed_secret=b"key:\x00\xff",
        created_at=NOON,
    )


def added(stores: Stores, name: str = "wh_1") -> Webhook:
    people(stores)
    made = hook(dataset(stores), name)
    assert stores.webhooks.add(made, most=MOST)
    return made


def attempt(number: int = 0, error: str | None = None) -> DeliveryAttempt:
    status = 204 if error is None else 500
    return DeliveryAttempt(at=NOON, message=f"m{number}", status=status, error=error, took_ms=7)


class WebhookStoreContract:
    def test_a_webhook_is_found_as_it_was_added(self, stores: Stores) -> None:
        made = added(stores)
        assert stores.webhooks.find("wh_1") == made
        assert stores.webhooks.find("wh_2") is None
        assert stores.webhooks.of_account(made.dataset, ANNA.id) == [made]
        assert stores.webhooks.of_account(made.dataset, BERT.id) == []

    def test_other_secrets_take_the_place_of_those_it_had_and_change_nothing_else(
        self, stores: Stores
    ) -> None:
        made, other = added(stores), hook(dataset(stores, "kamu/other"), "wh_2")
        assert stores.webhooks.add(other, most=MOST)
        stores.webhooks.reseal("wh_1", b"key:new")
        assert stores.webhooks.find("wh_1") == replace(made, sealed_secret=b"key:new")
        assert stores.webhooks.find("wh_2") == other

    def test_an_account_has_so_many_at_a_dataset_and_no_more(self, stores: Stores) -> None:
        made = added(stores)
        for number in range(2, MOST + 1):
            assert stores.webhooks.add(hook(made.dataset, f"wh_{number}"), most=MOST)
        assert not stores.webhooks.add(hook(made.dataset, "wh_9"), most=MOST)
        assert stores.webhooks.find("wh_9") is None
        assert stores.webhooks.add(hook(made.dataset, "wh_b", BERT.id), most=MOST)

    def test_it_is_due_until_it_was_told_of_the_head(self, stores: Stores) -> None:
        made = added(stores)
        [due] = stores.webhooks.due(now=NOON, limit=10)
        assert due == made
        assert stores.webhooks.lease("wh_1", "me", now=NOON, until=LATER) == made
        head = stores.refs.head(made.dataset)
        assert stores.webhooks.delivered("wh_1", "me", attempt(), position=head, resets=1)
        stores.webhooks.release("wh_1", "me")
        assert stores.webhooks.due(now=NOON, limit=10) == []
        assert stores.webhooks.find("wh_1") == replace(made, position=head, resets=1)
        assert stores.webhooks.attempts("wh_1", limit=5) == [attempt()]

    def test_it_is_due_once_for_polls_that_fail_since_a_success(self, stores: Stores) -> None:
        made = added(stores)
        head = stores.refs.head(made.dataset)
        stores.webhooks.restart("wh_1", position=head)
        other = Failing(some_id("other"), 1, NOON, JobId("0-x"), JobId("0-x"))
        for first in (JobId("1-a"), JobId("2-b")):
            failing = [other, Failing(made.dataset, 1, NOON, first, first)]
            [due] = stores.webhooks.due(now=NOON, limit=10, failing=failing)
            assert stores.webhooks.lease(due.id, "me", now=NOON, until=LATER) == due
            assert not stores.webhooks.told_failing("wh_1", "you", attempt(), first=first)
            assert stores.webhooks.told_failing("wh_1", "me", attempt(), first=first)
            stores.webhooks.release("wh_1", "me")
            assert stores.webhooks.due(now=NOON, limit=10, failing=failing) == []
            known = stores.webhooks.find("wh_1")
            assert known == replace(made, position=head, failing_told=first)
        assert stores.webhooks.due(now=NOON, limit=10) == []

    def test_those_come_first_that_were_served_longest_ago_and_few_of_an_account(
        self, stores: Stores
    ) -> None:
        made = added(stores)
        for number in (2, 3):
            assert stores.webhooks.add(hook(made.dataset, f"wh_{number}"), most=MOST)
        assert stores.webhooks.add(hook(made.dataset, "wh_b", BERT.id), most=MOST)
        stores.webhooks.note("wh_2", attempt())
        stores.webhooks.note("wh_1", attempt())

        def due(limit: int = 10, **more: Any) -> list[str]:
            return [each.id for each in stores.webhooks.due(now=NOON, limit=limit, **more)]

        assert due() == ["wh_3", "wh_b", "wh_2", "wh_1"]
        assert due(each=2) == ["wh_3", "wh_b", "wh_2"]
        assert due(limit=2, each=1) == ["wh_3", "wh_b"]
        assert due(without=[made.account]) == ["wh_b"]

    def test_one_holder_at_a_time_until_the_lease_runs_out(self, stores: Stores) -> None:
        added(stores)
        assert stores.webhooks.lease("wh_1", "me", now=NOON, until=LATER) is not None
        assert stores.webhooks.lease("wh_1", "you", now=NOON, until=LATER) is None
        assert stores.webhooks.due(now=NOON, limit=10) == []
        assert stores.webhooks.lease("wh_1", "me", now=NOON, until=LATER) is not None
        after = Instant(LATER.ns + NANOS)
        assert len(stores.webhooks.due(now=LATER, limit=10)) == 1
        assert stores.webhooks.lease("wh_1", "you", now=LATER, until=after) is not None
        assert not stores.webhooks.delivered("wh_1", "me", attempt(), position=BLOCK, resets=0)
        stores.webhooks.release("wh_1", "me")
        assert stores.webhooks.lease("wh_1", "me", now=LATER, until=after) is None

    def test_of_many_that_want_the_lease_at_once_one_gets_it(self, stores: Stores) -> None:
        added(stores)

        def lease(number: int) -> bool:
            return stores.webhooks.lease("wh_1", f"h{number}", now=NOON, until=LATER) is not None

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(lease, range(8))) == 1

    def test_a_failure_ends_the_lease_and_waits(self, stores: Stores) -> None:
        made = added(stores)
        for count in (1, 2):
            now = NOON if count == 1 else LATER
            assert stores.webhooks.lease("wh_1", "me", now=now, until=LATER) is not None
            failed = attempt(count, "ReceiverRefused")
            assert stores.webhooks.failed(
                "wh_1",
                "me",
                replace(failed, at=now),
                problem=PROBLEM,
                state=WebhookState.ACTIVE,
                not_before=LATER,
            )
            assert stores.webhooks.due(now=NOON, limit=10) == []
            found = stores.webhooks.find("wh_1")
            assert found is not None
            assert (found.attempts, found.failing_since, found.problem) == (count, NOON, PROBLEM)
        assert stores.webhooks.lease("wh_1", "me", now=LATER, until=LATER) is not None
        head = stores.refs.head(made.dataset)
        assert stores.webhooks.delivered("wh_1", "me", attempt(3), position=head, resets=0)
        assert stores.webhooks.find("wh_1") == replace(made, position=head)

    @pytest.mark.parametrize("state", [WebhookState.PAUSED, WebhookState.ENDED])
    def test_what_does_not_go_on_is_due_once_it_was_restarted(
        self, stores: Stores, state: WebhookState
    ) -> None:
        made = added(stores)
        stores.webhooks.lease("wh_1", "me", now=NOON, until=LATER)
        stores.webhooks.failed("wh_1", "me", None, problem=PROBLEM, state=state, not_before=None)
        assert stores.webhooks.due(now=LATER, limit=10) == []
        assert stores.webhooks.lease("wh_1", "me", now=LATER, until=LATER) is None
        stores.webhooks.restart("wh_1", position=BLOCK)
        assert stores.webhooks.find("wh_1") == replace(made, position=BLOCK)
        assert len(stores.webhooks.due(now=NOON, limit=10)) == 1

    def test_a_delivery_from_before_a_restart_moves_no_position(self, stores: Stores) -> None:
        added(stores)
        stores.webhooks.lease("wh_1", "me", now=NOON, until=LATER)
        stores.webhooks.restart("wh_1", position=None)
        assert not stores.webhooks.delivered("wh_1", "me", attempt(), position=BLOCK, resets=0)
        found = stores.webhooks.find("wh_1")
        assert found is not None
        assert found.position is None

    def test_the_newest_hundred_attempts_are_kept(self, stores: Stores) -> None:
        added(stores)
        for number in range(105):
            stores.webhooks.note("wh_1", attempt(number))
        kept = stores.webhooks.attempts("wh_1", limit=1000)
        assert [each.message for each in kept] == [f"m{n}" for n in range(104, 4, -1)]

    def test_a_webhook_goes_with_its_dataset(self, stores: Stores) -> None:
        made = added(stores)
        stores.webhooks.note("wh_1", attempt())
        stores.registry.forget(made.dataset)
        assert stores.webhooks.find("wh_1") is None
        assert stores.webhooks.attempts("wh_1", limit=5) == []

    def test_what_was_removed_is_delivered_no_more(self, stores: Stores) -> None:
        added(stores)
        for _ in range(2):
            stores.webhooks.remove("wh_1")
        stores.webhooks.note("wh_1", attempt())
        assert stores.webhooks.due(now=LATER, limit=10) == []
        assert stores.webhooks.find("wh_1") is None

    def test_there_is_no_webhook_without_a_dataset(self, stores: Stores) -> None:
        people(stores)
        with pytest.raises(DatasetNotFound):
            stores.webhooks.add(hook(some_id()), most=MOST)
