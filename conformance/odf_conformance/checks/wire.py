"""Checks of bytes on the wire: references, objects, upgrades, silence, and large batches."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson

from .. import shapes
from ..archive import batch, push_request
from ..chains import (
    CHECKPOINTS,
    DATA,
    Chain,
    described,
    hash_of,
    seeded,
    ten_records,
    without_data,
)
from ..http import Answer, request
from ..node import (
    NodeNeed,
    NodeUnderTest,
    PublishedChain,
    check,
    expect,
    expect_answer,
    expect_identical,
    expect_true,
    json_of,
)
from ..websocket import MAX_FRAME, HandshakeRefused, WebSocket

HEAD_CHARS = 69
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PULL_ALL = {"begin_after": None, "stop_at": None, "force_update_if_diverged": False}
FRAGMENT = 8 * 1024 * 1024


def the_head_is_a_bare_hash(node: NodeUnderTest) -> None:
    answer = node.ask("GET", node.shown.url + "refs/head")
    expect_answer(answer, 200)
    expect("length", len(answer.body), HEAD_CHARS)
    expect_true("no hash", shapes.HASH.fullmatch(answer.text))


def only_head_is_a_reference(node: NodeUnderTest) -> None:
    answer = node.ask("GET", node.shown.url + "refs/other")
    expect_answer(answer, 404)
    json_of(answer)


def head_requests_tell_what_is_there(node: NodeUnderTest) -> None:
    shown = node.shown
    there = [f"blocks/{shown.chain.head}", "refs/head"]
    there += ["/".join(name) for name in list(shown.chain.objects)[-4:]]
    for path in there:
        expect_answer(node.ask("HEAD", shown.url + path), 200, body=b"")
    for folder in ("blocks", DATA, CHECKPOINTS):
        missing = node.ask("HEAD", f"{shown.url}{folder}/f1620{'ab' * 32}")
        expect_answer(missing, 404, body=b"")


def what_is_served_hashes_to_its_name(node: NodeUnderTest) -> None:
    shown = node.shown
    for block in shown.chain.blocks[-3:]:
        expect_answer(node.ask("GET", f"{shown.url}blocks/{block.hash}"), 200, body=block.raw)
    for (folder, name), content in list(shown.chain.objects.items())[-3:]:
        answer = node.ask("GET", f"{shown.url}{folder}/{name}")
        expect_answer(answer, 200, body=content)
        expect("encoding", answer.header("content-encoding"), None)


def blocks_of_the_older_version_keep_their_bytes(node: NodeUnderTest) -> None:
    chain = ten_records()
    chain.add(described("older"), version=2).add_rows(3, version=2)
    made, local = node.publish(chain), Chain()
    expect_identical(node, made)
    node.mimic(made.url).pull(local)
    expect_true("smart pull changed bytes", local == chain)
    again = made.chain.copy().add(described("newer"))
    node.mimic(made.url).push(again)
    expect_identical(node, PublishedChain(made.url, again))


def an_upload_is_held_to_its_hash_and_its_length(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    content = os.urandom(100)
    url = f"{made.url}{DATA}/{hash_of(content)}"
    wrong = node.ask("PUT", url, node.token, b"something else")
    expect_true(f"wrong content is answered {wrong.status}", 400 <= wrong.status < 600)
    expect("wrong content is there", node.mimic(made.url).exists(DATA, hash_of(content)), False)
    bearer = [("authorization", f"Bearer {node.token}")]
    endless = request(
        "PUT", url, [*bearer, ("transfer-encoding", "chunked")], b"0\r\n\r\n", announce=False
    )
    expect_answer(endless, 400)
    for _ in range(2):
        expect_answer(node.ask("PUT", url, node.token, content), 200, body=b"")
    expect_answer(node.ask("GET", url, node.token), 200, body=content)


def an_upload_takes_the_right_to_write(node: NodeUnderTest) -> None:
    content = os.urandom(10)
    url = f"{node.shown.url}{DATA}/{hash_of(content)}"
    for token in ("", node.other):
        if token is not None:
            expect_answer(node.ask("PUT", url, token, content), 403)
    expect_answer(node.ask("HEAD", url), 404)


def a_hash_may_come_in_another_multibase(node: NodeUnderTest) -> None:
    block = node.shown.chain.blocks[-1]
    number, text = int(block.hash[1:], 16), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    answer = node.ask("GET", f"{node.shown.url}blocks/z{text}")
    expect_answer(answer, 200, body=block.raw)


def what_is_no_hash_is_a_bad_request(node: NodeUnderTest) -> None:
    expect_answer(node.ask("GET", node.shown.url + "blocks/nonsense"), 400)


def an_upgrade_without_a_version_is_a_bad_request(node: NodeUnderTest) -> None:
    for headers in ([], [("x-odf-smtp-version", "one")], [("x-odf-smtp-version", "")]):
        refusal = _refusal(node.shown.url + "pull", headers)
        expect("status", refusal.status, 400)
        expect_true("headers and body came in two writes", refusal.body)


def _refusal(url: str, headers: list[tuple[str, str]]) -> HandshakeRefused:
    try:
        WebSocket.open(url, headers).drop()
    except HandshakeRefused as refusal:
        return refusal
    expect_true("the upgrade was accepted", False)
    raise AssertionError


def no_subprotocol_and_no_extension_is_forced_upon_a_client(node: NodeUnderTest) -> None:
    with node.mimic(node.shown.url, "").exchange("pull") as exchange:
        exchange.ask(PULL_ALL, shapes.PULL_RESPONSE)
        exchange.close("")
    # a node must decline the compression that a library offers
    offered = [
        ("x-odf-smtp-version", "1"),
        ("sec-websocket-extensions", "permessage-deflate"),
    ]
    WebSocket.open(node.shown.url + "pull", offered).drop()


def a_waiting_client_hears_no_pings(node: NodeUnderTest) -> None:
    with ExitStack() as open_ones:
        waiting = []
        for steps in range(3):
            exchange = open_ones.enter_context(node.mimic(node.shown.url, "").exchange("pull"))
            if steps > 0:
                exchange.ask(PULL_ALL, shapes.PULL_RESPONSE)
            if steps > 1:
                exchange.ask({}, shapes.PULL_METADATA)
            waiting.append(exchange)
        time.sleep(node.patience_s)
        for exchange in waiting:
            expect_true("a frame came unasked", exchange.socket.silent_for(0))


def a_large_batch_arrives_in_frames_a_client_takes(node: NodeUnderTest) -> None:
    chain = seeded()
    for _ in range(10):
        chain.add(described(os.urandom(500_000).hex()))
    url = node.fresh()
    with node.mimic(url).exchange("push") as exchange:
        asked = push_request(chain.blocks, None)
        exchange.ask(asked, shapes.PUSH_RESPONSE)
        sent = {"new_blocks": batch([(block.hash, block.raw) for block in chain.blocks])}
        exchange.say(sent, fragment=FRAGMENT)
        expect("answer to the batch", exchange.hear(shapes.PUSH_METADATA), {"Ok": {}})
        exchange.ask({"object_files": [], "is_truncated": False}, shapes.PUSH_OBJECTS)
        exchange.say({"details": "Complete"})
        expect("confirmation", exchange.ask({}, shapes.EMPTY), {})
        exchange.close("Client push flow succeeded")
    with node.mimic(url).exchange("pull") as exchange:
        exchange.ask(PULL_ALL, shapes.PULL_RESPONSE)
        reply = exchange.ask({}, shapes.PULL_METADATA)
        longest, size = exchange.socket.longest_frame, exchange.socket.longest_message
        exchange.close("Client pull flow succeeded")
    expect("blocks", reply["blocks"]["num_blocks"], len(chain.blocks))
    expect_true(f"the batch has only {size} bytes", size > MAX_FRAME)
    expect_true(f"a frame has {longest} bytes", longest < MAX_FRAME)


def an_event_time_that_is_none_is_a_bad_request(node: NodeUnderTest) -> None:
    made = node.base("push source", with_push_source)
    answer = _post(node, made, ("odf-event-time", "yesterday"))
    expect_answer(answer, 400)
    expect_true("no message", json_of(answer).get("message"))


def _post(node: NodeUnderTest, made: PublishedChain, *headers: tuple[str, str]) -> Answer:
    given = [("authorization", f"Bearer {node.token}"), *headers]
    given.append(("content-type", "application/x-ndjson"))
    return request("POST", made.url + "ingest", given, b'{"city":"a"}\n')


def with_push_source() -> Chain:
    source = AddPushSource(
        source_name="default",
        read=ReadStepNdJson(ddl_schema=("city STRING", "population BIGINT")),
        merge=MergeStrategyAppend(),
    )
    return seeded().add(source)


def linked_objects_are_kept_and_served(node: NodeUnderTest) -> None:
    linked = os.urandom(1000)
    told = {"opendatafabric.org/linkedObjects": {"numObjectsNaive": 1, "sizeNaive": len(linked)}}
    chain = without_data().add_rows(1, extra=Attributes.of(told))
    made = node.publish(chain)
    url = f"{made.url}{DATA}/{hash_of(linked)}"
    expect_answer(node.ask("PUT", url, node.token, linked), 200)
    expect_identical(node, made)
    expect_answer(node.ask("GET", url, node.token), 200, body=linked)


WRITING = NodeNeed.WRITING
CHECKS = (
    check("Z01", the_head_is_a_bare_hash),
    check("Z02", only_head_is_a_reference),
    check("Z03", head_requests_tell_what_is_there),
    check("Z04", what_is_served_hashes_to_its_name),
    check("Z04", blocks_of_the_older_version_keep_their_bytes, WRITING),
    check("Z05", an_upload_is_held_to_its_hash_and_its_length, WRITING),
    check("Z05", an_upload_takes_the_right_to_write, WRITING),
    check("Z06", a_hash_may_come_in_another_multibase),
    check("Z06", what_is_no_hash_is_a_bad_request),
    check("Z07", an_upgrade_without_a_version_is_a_bad_request),
    check("Z08", no_subprotocol_and_no_extension_is_forced_upon_a_client),
    check("Z09", a_waiting_client_hears_no_pings),
    check("Z18 Z19", a_large_batch_arrives_in_frames_a_client_takes, WRITING),
    check("Z27", an_event_time_that_is_none_is_a_bad_request, WRITING),
    check("Z28", linked_objects_are_kept_and_served, WRITING),
)
