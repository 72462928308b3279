"""Checks of pushes that fail, run at the same time, are slow, or break a rule."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from .. import shapes
from ..archive import (
    batch,
    header,
    pack,
    push_request,
)
from ..chains import (
    Block,
    described,
    evolved,
    object_name,
    seeded,
    ten_records,
)
from ..node import (
    ConformanceCheck,
    NodeNeed,
    NodeUnderTest,
    PublishedChain,
    check,
    expect,
    expect_identical,
    expect_true,
    gives_up,
)
from ..violations import (
    BASES,
    VIOLATIONS,
    Broken,
    blocks_message,
    close_of,
    expect_refused,
    objects_message,
)
from ..websocket import (
    COMPLETE,
    RUNNING,
    Closed,
    CloseReason,
    Exchange,
    GaveUp,
)

MAX_REASON = 123
COLLISION_BYTES = 119


def _opened(exchange: Exchange, made: PublishedChain | None, blocks: list[Block]) -> Any:
    """Run a push up to the response to its objects request."""
    remote = None if made is None else made.chain.head
    exchange.ask(push_request(blocks, remote), shapes.PUSH_RESPONSE)
    exchange.ask(blocks_message(blocks), shapes.PUSH_METADATA)
    files = [file for block in blocks for file in block.files]
    reply = exchange.ask(objects_message(files), shapes.PUSH_OBJECTS)
    return reply["Ok"]["object_transfer_strategies"]


def a_slow_upload_is_asked_for_its_progress(node: NodeUnderTest) -> None:
    made = PublishedChain(node.fresh(), seeded())
    with node.mimic(made.url).exchange("push") as exchange:
        _opened(exchange, None, made.chain.blocks)
        ticks, end = 0, time.monotonic() + 2.5 * node.progress_s
        while (left := end - time.monotonic()) > 0:
            if exchange.socket.waiting(left):
                expect("progress request", exchange.hear(shapes.EMPTY), {})
                ticks += 1
                exchange.say(RUNNING)
                exchange.say(RUNNING)
        expect("progress requests", ticks, 2)
        exchange.say(COMPLETE)
        expect("confirmation", exchange.ask({}, shapes.EMPTY), {})
        exchange.close("Client push flow succeeded")
    expect_identical(node, made)


def nothing_is_asked_between_the_end_of_uploads_and_the_confirmation(node: NodeUnderTest) -> None:
    made = PublishedChain(node.fresh(), seeded())
    with node.mimic(made.url).exchange("push") as exchange:
        _opened(exchange, None, made.chain.blocks)
        exchange.say(COMPLETE)
        time.sleep(1.2 * node.progress_s)
        expect_true("a message came after Complete", exchange.socket.silent_for(0))
        expect("confirmation", exchange.ask({}, shapes.EMPTY), {})
        expect_true("more than one confirmation", exchange.socket.silent_for(0.1))
        exchange.close("Client push flow succeeded")


def a_stale_head_is_told_with_both_heads(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    stale = made.chain.blocks[0].hash
    more = made.chain.copy().add(described("late"))
    for claimed in (stale, None):
        with (
            gives_up(CloseReason.INTERNAL, actual_head=claimed, expected_head=made.chain.head),
            node.mimic(made.url).exchange("push") as exchange,
        ):
            asked = push_request(more.blocks[4:], claimed)
            exchange.ask(asked, shapes.PUSH_RESPONSE)


def an_id_under_another_name_is_closed_with_its_reason(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    closed = close_of(node.mimic(node.fresh()), None, made.chain.blocks, made.chain)
    expect("close code", closed.code, 1011)
    wanted = {"Err": {"RefCollision": {"dataset_id": str(made.chain.id)}}}
    expect("reason", json.loads(closed.reason), wanted)
    expect("bytes of the reason", len(closed.reason.encode()), COLLISION_BYTES)


def another_seed_by_force_is_closed_with_its_reason(node: NodeUnderTest) -> None:
    made, other = node.base("ten records", ten_records), seeded()
    closed = expect_refused(node, made, other.blocks, other, force=True)
    expect("reason", closed.reason, '{"Err":{"SeedBlockOverwriteRestricted":{}}}')


# --- batches that cannot be trusted


def _tar_of(*records: bytes) -> list[int]:
    return list(gzip.compress(b"".join(records) + bytes(1024)))


def _not_announced(blocks: list[Block]) -> dict[str, Any]:
    return blocks_message(blocks, num_blocks=len(blocks) + 1)


def _folder(blocks: list[Block]) -> dict[str, Any]:
    return blocks_message(blocks, payload=_tar_of(header(blocks[0].hash, 0, b"5")))


def _link(blocks: list[Block]) -> dict[str, Any]:
    return blocks_message(blocks, payload=_tar_of(header(blocks[0].hash, 0, b"2")))


def _entries(*entries: tuple[str, bytes]) -> dict[str, Any]:
    return {"new_blocks": batch(entries)}


BATCHES: dict[str, Callable[[list[Block]], dict[str, Any]]] = {
    "of another media type": lambda b: blocks_message(b, media_type="application/tar"),
    "of another encoding": lambda b: blocks_message(b, encoding="base64"),
    "that is no gzip": lambda b: blocks_message(b, payload=list(b"not gzip at all")),
    "that is no tar": lambda b: blocks_message(b, payload=list(gzip.compress(b"not a tar" * 99))),
    "that ends early": lambda b: blocks_message(
        b, payload=list(pack([(one.hash, one.raw) for one in b])[:-20])
    ),
    "with other content under a hash": lambda b: _entries(
        (b[0].hash, b[1].raw), (b[1].hash, b[1].raw)
    ),
    "with a name that is no hash": lambda b: _entries(("head", b[0].raw), (b[1].hash, b[1].raw)),
    "with one block twice": lambda b: blocks_message([b[0], b[0]]),
    "with blocks out of order": lambda b: blocks_message(b[::-1]),
    "with other blocks than announced": lambda b: blocks_message(b[:1]),
    "with fewer blocks than it counts": _not_announced,
    "with a folder": _folder,
    "with a link": _link,
    "without its payload": lambda b: {"new_blocks": {"num_blocks": len(b)}},
    "that is no batch": lambda _: {"new_blocks": 1},
}


def a_batch_is_refused(node: NodeUnderTest, what: str) -> None:
    made = node.base("ten records", ten_records)
    more = made.chain.copy().add(described("one"), described("two"))
    blocks = more.blocks[4:]
    expect_refused(node, made, blocks, more, message=BATCHES[what](blocks))


def a_missing_upload_ends_in_a_close_and_no_text(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    more = made.chain.copy().add_rows(7)
    closed = expect_refused(node, made, more.blocks[4:], more, upload=False)
    reason = json.loads(closed.reason)["Err"]["Internal"]
    expect("phase", reason["phase"], {"Push": "CompleteRequest"})
    expect_true("the reason is too long", len(closed.reason.encode()) <= MAX_REASON)


def an_object_of_another_size_ends_in_a_close(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    more = made.chain.copy().add_rows(6)
    event = more.blocks[-1].event
    wrong = type(event.new_data)(
        logical_hash=event.new_data.logical_hash,
        physical_hash=event.new_data.physical_hash,
        offset_interval=event.new_data.offset_interval,
        size=event.new_data.size + 1,
    )
    more = made.chain.copy().add_rows(6, new_data=wrong)
    for (folder, name), content in more.objects.items():
        node.ask("PUT", f"{made.url}{folder}/{name}", node.token, content)
    expect_refused(node, made, more.blocks[4:], more)


def of_two_pushes_on_one_head_one_wins(node: NodeUnderTest) -> None:
    made = node.publish(ten_records())
    sides = [made.chain.copy().add(described(text)) for text in ("one", "other")]
    with (
        node.mimic(made.url).exchange("push") as first,
        node.mimic(made.url).exchange("push") as second,
        ThreadPoolExecutor(2) as pool,
    ):
        for exchange, side in ((first, sides[0]), (second, sides[1])):
            _opened(exchange, made, side.blocks[4:])
            exchange.say(COMPLETE)
        done = list(pool.map(_finished, (first, second)))
    expect("pushes confirmed", sum(done), 1)
    expect_identical(node, PublishedChain(made.url, sides[done.index(True)]))


def _finished(exchange: Exchange) -> bool:
    """Return whether the node confirms the push by a message, and does not end it by a Close."""
    exchange.say({})
    try:
        exchange.socket.receive()
    except Closed as closed:
        expect("close code", closed.code, 1011)
        return False
    return True


def objects_may_be_named_in_several_rounds(node: NodeUnderTest) -> None:
    made = PublishedChain(node.fresh(), ten_records())
    mimic, chain = node.mimic(made.url), made.chain
    with mimic.exchange("push") as exchange:
        exchange.ask(push_request(chain.blocks, None), shapes.PUSH_RESPONSE)
        exchange.ask(blocks_message(chain.blocks), shapes.PUSH_METADATA)
        for number, file in enumerate(chain.files(), 1):
            asked = objects_message([file], truncated=number < len(chain.files()))
            reply = exchange.ask(asked, shapes.PUSH_OBJECTS)
            for strategy in reply["Ok"]["object_transfer_strategies"]:
                mimic.upload(strategy, chain)
            exchange.say(COMPLETE)
        expect("confirmation", exchange.ask({}, shapes.EMPTY), {})
        exchange.close("Client push flow succeeded")
    expect_identical(node, made)


def a_push_that_broke_off_is_finished_from_its_seed(node: NodeUnderTest) -> None:
    made = PublishedChain(node.fresh(), ten_records())
    mimic, chain = node.mimic(made.url), made.chain
    with mimic.exchange("push") as exchange:
        strategies = _opened(exchange, None, chain.blocks)
        mimic.upload(strategies[0], chain)
    expect("head", mimic.head(), chain.blocks[0].hash)
    mimic.trace.clear()
    expect("blocks", mimic.push(chain).num_blocks, 3)
    folder = object_name(strategies[0]["object_file"])[0]
    expect_true(f"{folder} was uploaded again", f"PUT {folder}" not in mimic.trace)
    expect_identical(node, made)


def a_push_may_end_before_anything_is_made(node: NodeUnderTest) -> None:
    made = PublishedChain(node.fresh(), ten_records())
    mimic = node.mimic(made.url)
    with mimic.exchange("push") as exchange:
        exchange.ask(push_request(made.chain.blocks, None), shapes.PUSH_RESPONSE)
        exchange.close("")
    expect("head", mimic.head(), None)
    expect("blocks", mimic.push(made.chain).num_blocks, 4)


def a_new_dataset_begins_with_its_seed(node: NodeUnderTest) -> None:
    chain = ten_records()
    mimic = node.mimic(node.fresh())
    closed = close_of(mimic, None, chain.blocks[1:], chain)
    expect("close code", closed.code, 1011)
    expect("head", mimic.head(), None)


def a_message_that_is_no_text_ends_the_exchange(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    for opcode, content in ((2, b"{}"), (1, b"{}"), (1, b"not json"), (1, b"[]")):
        with node.mimic(made.url).exchange("push") as exchange:
            exchange.socket.send_frame(opcode, content)
            try:
                exchange.socket.receive()
            except Closed as closed:
                expect("close code", closed.code, 1011)
                continue
            expect_true("it was answered", False)


def a_ping_of_a_client_does_not_end_the_exchange(node: NodeUnderTest) -> None:
    with node.mimic(node.shown.url, "").exchange("pull") as exchange:
        exchange.socket.send_frame(9, b"there?")
        expect("answer", exchange.socket.read_frame().opcode, 10)
        asked = {"begin_after": None, "stop_at": None, "force_update_if_diverged": False}
        exchange.ask(asked, shapes.PULL_RESPONSE)
        exchange.close("")


def a_rule_is_kept(node: NodeUnderTest, base: str, broken: Broken) -> None:
    made = node.base(base, BASES[base])
    more = broken(made.chain.copy())
    blocks = more.blocks[len(made.chain.blocks) :]
    closed = expect_refused(node, made, blocks, more)
    expect("kind of refusal", next(iter(json.loads(closed.reason)["Err"])), "Internal")


def the_datasets_rules_are_broken_on_are_fine(node: NodeUnderTest) -> None:
    """Check that a node accepts the datasets to which violations are added.

    Otherwise it would refuse every violation for another reason.
    """
    for name, make in BASES.items():
        made = node.base(name, make)
        more = PublishedChain(node.publish(make()).url, made.chain)
        expect_true(f"{name} has no head", node.mimic(more.url).head())
    try:
        again = node.publish(ten_records())
        node.mimic(again.url).push(evolved(again.chain))
    except GaveUp as ended:
        expect("an evolved dataset", str(ended), "taken")


def _batch(what: str) -> ConformanceCheck:
    run = partial(a_batch_is_refused, what=what)
    return check("Z15", run, NodeNeed.WRITING, title=f"a batch {what} is refused")


def _rule(what: str, base: str, broken: Broken) -> ConformanceCheck:
    run = partial(a_rule_is_kept, base=base, broken=broken)
    return check("Z29", run, NodeNeed.WRITING, title=f"{what} is refused")


WRITING, PATIENCE = NodeNeed.WRITING, NodeNeed.PATIENCE
CHECKS = (
    check("Z10", a_slow_upload_is_asked_for_its_progress, WRITING, PATIENCE),
    check(
        "Z11",
        nothing_is_asked_between_the_end_of_uploads_and_the_confirmation,
        WRITING,
        PATIENCE,
    ),
    check("Z12", a_stale_head_is_told_with_both_heads, WRITING),
    check("Z13", another_seed_by_force_is_closed_with_its_reason, WRITING),
    check("Z14", an_id_under_another_name_is_closed_with_its_reason, WRITING),
    *(_batch(what) for what in BATCHES),
    check("Z16", a_missing_upload_ends_in_a_close_and_no_text, WRITING),
    check("Z16", an_object_of_another_size_ends_in_a_close, WRITING),
    check("Z17", of_two_pushes_on_one_head_one_wins, WRITING),
    check("Z20", objects_may_be_named_in_several_rounds, WRITING),
    check("Z21", a_push_may_end_before_anything_is_made, WRITING),
    check("Z22", a_push_that_broke_off_is_finished_from_its_seed, WRITING),
    check("Z29", the_datasets_rules_are_broken_on_are_fine, WRITING),
    check("Z29", a_new_dataset_begins_with_its_seed, WRITING),
    *(_rule(*line) for line in VIOLATIONS),
    check("Z15", a_message_that_is_no_text_ends_the_exchange, WRITING),
    check("Z09", a_ping_of_a_client_does_not_end_the_exchange),
)
