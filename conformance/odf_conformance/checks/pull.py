"""Checks of smart pull, and of the URLs at which clients fetch and put objects."""

from __future__ import annotations

import os
from typing import Any

from .. import shapes
from ..archive import batch, push_request
from ..chains import (
    CHECKPOINTS,
    DATA,
    Chain,
    compacted,
    described,
    evolved,
    grown,
    object_name,
    seeded,
    ten_records,
    without_data,
)
from ..mimic import Mimic
from ..node import (
    NodeNeed,
    NodeUnderTest,
    PublishedChain,
    check,
    expect,
    expect_true,
    gives_up,
    path_of,
)
from ..websocket import (
    CloseReason,
    HandshakeRefused,
    Result,
    WebSocket,
)

UNKNOWN = "f1620" + "ab" * 32


def a_client_with_nothing_receives_everything(node: NodeUnderTest) -> None:
    shown, local = node.shown, Chain()
    mimic = node.mimic(shown.url, "")
    result = mimic.pull(local, take=lambda file: object_name(file) in shown.chain.objects)
    expect("result", result, Result(None, shown.chain.head or "", len(shown.chain.blocks)))
    expect_true("blocks and objects differ from those served one by one", local == shown.chain)
    expect("odd messages", mimic.notes, [])


def a_seed_alone_is_pulled_without_asking_for_objects(node: NodeUnderTest) -> None:
    made, local = node.publish(seeded()), Chain()
    mimic = node.mimic(made.url)
    expect("blocks", mimic.pull(local).num_blocks, 1)
    expect("requests", mimic.trace, ["GET refs", "upgrade pull"])
    expect("head", local.head, made.chain.head)


def a_client_that_has_the_head_is_up_to_date(node: NodeUnderTest) -> None:
    local = node.shown.chain.copy()
    result = node.mimic(node.shown.url, "").pull(local)
    expect_true("something was transferred", result.up_to_date)
    expect_true("the local chain changed", local == node.shown.chain)


def only_the_new_blocks_are_pulled(node: NodeUnderTest) -> None:
    before = without_data()
    made, local = node.publish(evolved(before)), before.copy()
    result = node.mimic(made.url).pull(local)
    expect("result", result, Result(before.head, made.chain.head or "", 2))
    expect_true("chains differ", local == made.chain)


def a_compacted_history_replaces_the_longer_one_by_force(node: NodeUnderTest) -> None:
    key = os.urandom(32)
    local, made = grown(key), node.publish(compacted(key))
    old = local.head
    result = node.mimic(made.url).pull(local, force=True)
    expect("result", result, Result(old, made.chain.head or "", 4))
    expect_true("blocks differ", local.blocks == made.chain.blocks)


def a_client_that_is_ahead_is_told_the_interval_is_invalid(node: NodeUnderTest) -> None:
    made = node.publish(without_data())
    local = made.chain.copy().add(described("mine"))
    before = local.copy()
    with gives_up(CloseReason.DIVERGED, head=made.chain.head, tail=local.head):
        node.mimic(made.url).pull(local)
    expect_true("the local chain changed", local == before)


def objects_that_are_here_are_not_fetched_again(node: NodeUnderTest) -> None:
    made = node.publish(ten_records())
    local = Chain(objects=dict(made.chain.objects))
    mimic = node.mimic(made.url)
    expect("blocks", mimic.pull(local).num_blocks, 4)
    expect("requests", mimic.trace, ["GET refs", "upgrade pull"])
    expect_true("chains differ", local == made.chain)


def an_older_chain_with_the_newer_objects_needs_only_blocks(node: NodeUnderTest) -> None:
    before = without_data()
    made = node.publish(evolved(before))
    local = Chain(list(before.blocks), dict(made.chain.objects))
    mimic = node.mimic(made.url)
    expect("blocks", mimic.pull(local).num_blocks, 2)
    expect("requests", mimic.trace, ["GET refs", "upgrade pull"])
    expect_true("chains differ", local == made.chain)


def a_public_dataset_is_pulled_without_a_token(node: NodeUnderTest) -> None:
    local = Chain()
    seen = node.shown.chain.objects
    node.mimic(node.shown.url, "").pull(local, take=lambda file: object_name(file) in seen)
    expect("head", local.head, node.shown.chain.head)


def another_version_is_refused_for_pull(node: NodeUnderTest) -> None:
    expect_refused_version(node, node.shown.url + "pull", "")


def expect_refused_version(node: NodeUnderTest, url: str, token: str | None) -> None:
    """Check that version 0 is refused with 400 and a message, all of it in one read."""
    mimic = node.mimic(url, token)
    try:
        WebSocket.open(url, [("x-odf-smtp-version", "0"), *mimic.bearer]).drop()
    except HandshakeRefused as refusal:
        expect("status", refusal.status, 400)
        expect("body", refusal.text, '{"message":"Incompatible client version"}')
    else:
        expect_true("version 0 was accepted", False)


def pull_strategies(mimic: Mimic, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the node's transfer strategies for these files, in a pull of the whole chain."""
    with mimic.exchange("pull") as exchange:
        asked = {"begin_after": None, "stop_at": None, "force_update_if_diverged": False}
        exchange.ask(asked, shapes.PULL_RESPONSE)
        exchange.ask({}, shapes.PULL_METADATA)
        reply = exchange.ask({"object_files": files}, shapes.PULL_OBJECTS)
        exchange.close("")
    found: list[dict[str, Any]] = reply["object_transfer_strategies"]
    expect("objects answered for", [item["object_file"] for item in found], files)
    return found


def push_strategies(mimic: Mimic, made: PublishedChain, more: Chain, files: Any) -> Any:
    """Push the blocks of `more`, return the node's strategies for these files, and end the push."""
    blocks = more.blocks[len(made.chain.blocks) :]
    with mimic.exchange("push") as exchange:
        exchange.ask(push_request(blocks, made.chain.head), shapes.PUSH_RESPONSE)
        sent = {"new_blocks": batch([(block.hash, block.raw) for block in blocks])}
        exchange.ask(sent, shapes.PUSH_METADATA)
        asked = {"object_files": files, "is_truncated": False}
        reply = exchange.ask(asked, shapes.PUSH_OBJECTS)
    return reply["Ok"]["object_transfer_strategies"]


def expect_link(target: dict[str, Any], path: str, token: str | None) -> None:
    """Check a link: to the node, with its two headers in order, or a presigned URL that expires."""
    headers = [(header["name"], header["value"]) for header in target["headers"]]
    if headers and headers[0][0].lower() == "x-odf-smtp-version":
        own = [("x-odf-smtp-version", "1")]
        own += [("authorization", f"Bearer {token}")] if token else []
        expect("headers", headers, own)
        expect("path", path_of(target["url"]), path)
        expect("expiry", target.get("expires_at"), None)
    else:
        expect_true("a presigned URL must expire", target.get("expires_at"))
        expect_true("the token left the node", token is None or token not in str(headers))


def _file(chain: Chain, folder: str) -> dict[str, Any]:
    return next(file for file in chain.files() if object_name(file)[0] == folder)


def a_slice_is_fetched_with_the_callers_own_token(node: NodeUnderTest) -> None:
    _expect_download(node, DATA)


def a_checkpoint_is_fetched_with_the_callers_own_token(node: NodeUnderTest) -> None:
    _expect_download(node, CHECKPOINTS)


def _expect_download(node: NodeUnderTest, folder: str) -> None:
    made = node.base("ten records", ten_records)
    file = _file(made.chain, folder)
    (strategy,) = pull_strategies(node.mimic(made.url), [file])
    expect("strategy", strategy["pull_strategy"], "HttpDownload")
    path = path_of(made.url) + f"{folder}/{file['physical_hash']}"
    expect_link(strategy["download_from"], path, node.token)


def an_anonymous_caller_gets_links_without_a_token(node: NodeUnderTest) -> None:
    shown = node.shown
    files = shown.chain.files()[-2:]
    for strategy in pull_strategies(node.mimic(shown.url, ""), files):
        folder, name = object_name(strategy["object_file"])
        expect_link(strategy["download_from"], path_of(shown.url) + f"{folder}/{name}", None)


def objects_that_are_there_are_skipped(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    found = push_strategies(node.mimic(made.url), made, _one_more(made), made.chain.files())
    for strategy in found:
        expect("strategy", strategy["push_strategy"], "SkipUpload")
        expect("upload_to", strategy.get("upload_to"), None)


def unknown_objects_are_uploaded_with_the_callers_own_token(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    files = [
        {"object_type": "DataSlice", "physical_hash": UNKNOWN, "size": 12345},
        {"object_type": "Checkpoint", "physical_hash": UNKNOWN, "size": 321},
    ]
    found = push_strategies(node.mimic(made.url), made, _one_more(made), files)
    expect("objects answered for", [item["object_file"] for item in found], files)
    for strategy in found:
        expect("strategy", strategy["push_strategy"], "HttpUpload")
        folder, name = object_name(strategy["object_file"])
        path = path_of(made.url) + f"{folder}/{name}"
        expect_link(strategy["upload_to"], path, node.token)


def _one_more(made: PublishedChain) -> Chain:
    return made.chain.copy().add(described("one more"))


def a_pull_may_end_after_the_plan_or_the_batch(node: NodeUnderTest) -> None:
    for steps in (1, 2):
        with node.mimic(node.shown.url, "").exchange("pull") as exchange:
            asked = {"begin_after": None, "stop_at": None, "force_update_if_diverged": False}
            exchange.ask(asked, shapes.PULL_RESPONSE)
            if steps == 2:
                exchange.ask({}, shapes.PULL_METADATA)
            exchange.close("Client pull flow succeeded")
    expect_true("the head is gone", node.mimic(node.shown.url, "").head())


def a_pull_up_to_an_unknown_block_is_an_internal_error_in_text(node: NodeUnderTest) -> None:
    with node.mimic(node.shown.url, "").exchange("pull") as exchange:
        asked = {"begin_after": None, "stop_at": UNKNOWN, "force_update_if_diverged": False}
        exchange.say(asked)
        reply = exchange.hear(shapes.PULL_RESPONSE)
    expect("a Close instead of a message", reply.get("closed"), None)
    expect("error", next(iter(reply["Err"])), "Internal")
    expect("phase", reply["Err"]["Internal"]["phase"], {"Pull": "InitialRequest"})


WRITING = NodeNeed.WRITING
CHECKS = (
    check("A01", a_client_with_nothing_receives_everything),
    check("A02", a_seed_alone_is_pulled_without_asking_for_objects, WRITING),
    check("A03", a_client_that_has_the_head_is_up_to_date),
    check("A04", only_the_new_blocks_are_pulled, WRITING),
    check("A05", a_compacted_history_replaces_the_longer_one_by_force, WRITING),
    check("A06", a_client_that_is_ahead_is_told_the_interval_is_invalid, WRITING),
    check("A07", objects_that_are_here_are_not_fetched_again, WRITING),
    check("A08", an_older_chain_with_the_newer_objects_needs_only_blocks, WRITING),
    check("A09", a_public_dataset_is_pulled_without_a_token),
    check("A10", another_version_is_refused_for_pull),
    check("C01", a_slice_is_fetched_with_the_callers_own_token, WRITING),
    check("C01", an_anonymous_caller_gets_links_without_a_token),
    check("C02", a_checkpoint_is_fetched_with_the_callers_own_token, WRITING),
    check("C03", objects_that_are_there_are_skipped, WRITING),
    check("C04", unknown_objects_are_uploaded_with_the_callers_own_token, WRITING),
    check("Z21", a_pull_may_end_after_the_plan_or_the_batch),
    check("A06", a_pull_up_to_an_unknown_block_is_an_internal_error_in_text),
)
