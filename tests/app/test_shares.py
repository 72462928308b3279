"""What one caller may take, and what is left for the others."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from odf_node.service.limits.shares import AllTaken, ShareTaken, Slots, Turns, caller_of

LIMITS = {"most": 3, "each": 2, "setting": "ODF_NODE_ALL"}


def test_a_caller_gets_its_share_and_no_more():
    slots = Slots("things", **LIMITS)
    with ExitStack() as taken:
        taken.enter_context(slots.taken("bob"))
        taken.enter_context(slots.taken("bob"))
        with pytest.raises(ShareTaken) as refused:
            slots.take("bob")
        assert refused.value.facts["setting"] == "ODF_NODE_SHARE"
        taken.enter_context(slots.taken("alice"))
        with pytest.raises(AllTaken) as refused:
            slots.take("alice")
        assert refused.value.facts["setting"] == "ODF_NODE_ALL"
    slots.take("bob")


def test_a_caller_that_waits_for_its_own_turns_waits_alone():
    turns = Turns("things", most=3, each=2)
    go_on, done = threading.Event(), []

    async def run() -> None:
        held = [asyncio.create_task(turns.run("bob", go_on.wait)) for _ in range(10)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(90):
                assert await turns.run("alice", lambda: "served") == "served"
            assert not any(task.done() for task in held)
        finally:
            go_on.set()
        done.extend(await asyncio.gather(*held))
        assert not turns._shares
        assert not turns._users

    asyncio.run(run())
    assert done == [True] * 10


def test_a_turn_is_waited_for_as_long_as_patience_lasts():
    turns = Turns("things", most=3, each=2, setting=LIMITS["setting"])

    async def run() -> None:
        held = [await turns.take("bob"), await turns.take("bob")]
        with pytest.raises(ShareTaken):
            await turns.take("bob", 0.01)
        held.append(await turns.take("alice"))
        with pytest.raises(AllTaken):
            await turns.take("alice", 0.01)
        waiting = asyncio.create_task(turns.take("bob", 30))
        await asyncio.sleep(0.01)
        held.pop(0).give_back()
        held.append(await waiting)
        for turn in held:
            turn.give_back()
            turn.give_back()  # once is enough
        assert not turns._shares
        await asyncio.gather(*(turns.take(str(n), 0.01) for n in range(3)))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("192.0.2.7", "address 192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "address 2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "address 2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "address 192.0.2.7"),
        ("fe80::1%eth0", "address fe80::/64"),
        ("testclient", "address testclient"),
    ],
)
def test_addresses_of_one_network_are_one_caller(host, caller):
    assert caller_of({"client": (host, 1)}) == caller


def test_without_an_address_all_are_one_caller():
    assert caller_of({}) == caller_of({"client": None}) == "address"
