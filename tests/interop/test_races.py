"""Writers that meet: of many pushes on one head exactly one wins, and the others hear of it."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from mimic import Chain, Exchange, GaveUp, PublishedChain, object_name

from odf_conformance import shapes
from odf_conformance.archive import push_request
from odf_conformance.chains import described, ten_records
from odf_conformance.node import expect_identical
from odf_conformance.violations import blocks_message, objects_message
from odf_conformance.websocket import COMPLETE, Closed

WRITERS, ROUNDS = 16, 4


def continuation(chain: Chain, writer: int) -> Chain:
    """A continuation nobody else has."""
    more = chain.copy().add(described(f"writer {writer}"))
    return more.add_rows(writer + 1, checkpoint=f"writer {writer}".encode() * 9)


def ready(single, made: PublishedChain, mine: Chain) -> Exchange:
    """A push that only has to be committed."""
    mimic, blocks = single.mimic(made.url), mine.blocks[len(made.chain.blocks) :]
    exchange = mimic.exchange("push")
    exchange.ask(push_request(blocks, made.chain.head), shapes.PUSH_RESPONSE)
    exchange.ask(blocks_message(blocks), shapes.PUSH_METADATA)
    files = [file for block in blocks for file in block.files]
    reply = exchange.ask(objects_message(files), shapes.PUSH_OBJECTS)
    for strategy in reply["Ok"]["object_transfer_strategies"]:
        if strategy["push_strategy"] == "HttpUpload":
            mimic.upload(strategy, mine)
    return exchange


def finished(together: threading.Barrier, exchange: Exchange) -> bool:
    """Whether the commit is confirmed; all writers ask for it at the same moment."""
    exchange.say(COMPLETE)
    quiet(exchange)
    together.wait()
    exchange.say({})
    closed = close_instead_of_confirmation(exchange)
    exchange.socket.drop()
    if closed is None:
        return True
    reason = json.loads(closed.reason)["Err"]["Internal"]
    assert (closed.code, reason["phase"]) == (1011, {"Push": "CompleteRequest"})
    return False


def quiet(exchange: Exchange) -> None:
    """Take in the progress requests that came before the node read `Complete`."""
    while exchange.socket.waiting(0.05):
        exchange.hear(shapes.EMPTY)


def close_instead_of_confirmation(exchange: Exchange) -> Closed | None:
    try:
        assert exchange.socket.receive() == "{}"
    except Closed as closed:
        return closed
    return None


@pytest.mark.scenario("Z17")
def test_of_many_pushes_on_one_head_one_wins_each_round(single):
    made = single.publish(ten_records())
    for _ in range(ROUNDS):
        sides = [continuation(made.chain, writer) for writer in range(WRITERS)]
        together = threading.Barrier(WRITERS)
        with ThreadPoolExecutor(WRITERS) as pool:
            exchanges = list(pool.map(partial(ready, single, made), sides))
            won = list(pool.map(partial(finished, together), exchanges))
        assert won.count(True) == 1
        stale, made = made, PublishedChain(made.url, sides[won.index(True)])
        expect_identical(single, made)
        for loser in [side for side, one in zip(sides, won, strict=True) if not one][:3]:
            assert told_head(single, stale, loser) == made.chain.head


def told_head(single, stale: PublishedChain, loser: Chain) -> str:
    """The head a writer hears of who still believes in the old one."""
    with single.mimic(stale.url).exchange("push") as exchange:
        blocks = loser.blocks[len(stale.chain.blocks) :]
        exchange.say(push_request(blocks, stale.chain.head))
        error = exchange.hear(shapes.PUSH_RESPONSE)["Err"]["InvalidHead"]
    assert error["actual_head"] == stale.chain.head
    return error["expected_head"]


@pytest.mark.scenario("Z17")
def test_of_many_first_pushes_to_one_name_one_wins(single):
    url, chains = single.fresh(), [ten_records() for _ in range(6)]
    with ThreadPoolExecutor(len(chains)) as pool:
        ended = list(pool.map(lambda chain: outcome(single, url, chain), chains))
    assert ended.count("pushed") == 1
    winner = chains[ended.index("pushed")]
    expect_identical(single, PublishedChain(url, winner))
    assert {object_name(file) for file in winner.files()} == set(winner.objects)


def outcome(single, url: str, chain: Chain) -> str:
    try:
        single.mimic(url).push(chain)
    except GaveUp as ended:
        return ended.why.value
    return "pushed"
