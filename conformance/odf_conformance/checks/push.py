"""Checks of smart push and simple pull: accepted and refused transfers, and the client's errors.

Find the address of a dataset in a repository as the reference client does, by three lookups.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..chains import (
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
from ..http import follow
from ..node import (
    Deviation,
    NodeNeed,
    NodeUnderTest,
    PublishedChain,
    check,
    expect,
    expect_identical,
    expect_true,
    gives_up,
)
from ..websocket import CloseReason, GaveUp, Result
from .pull import expect_refused_version


def ask(origin: str, path: str, token: str | None) -> Any | None:
    """Return the JSON response of a lookup, or None for any 4xx. Raise `GaveUp` without JSON."""
    bearer = [("authorization", f"Bearer {token}")] if token else []
    answer = follow("GET", f"{origin.rstrip('/')}/{path}", bearer)
    if 400 <= answer.status < 500:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        raise GaveUp(CloseReason.INTERNAL, f"{path}: HTTP {answer.status} without JSON") from None


def account_segment(repository: str, token: str | None) -> str | None:
    """Return the account under which our datasets are published, or None if addresses have none."""
    info = ask(repository, "info", token)
    if info is None or not info.get("isMultiTenant"):
        return None
    me = ask(repository, "accounts/me", token)
    if me is None:
        return None
    if "accountName" not in me:
        raise GaveUp(CloseReason.INTERNAL, "/accounts/me names no account")
    return str(me["accountName"])


def push_target(repository: str, dataset_id: str, name: str, token: str | None) -> str:
    """Return the address for a push to a repository.

    It ends with the name that the dataset has there, or else with the local name.
    """
    account = account_segment(repository, token)
    known = ask(repository, f"datasets/{dataset_id}", token)
    parts = [repository.rstrip("/"), account, known["datasetName"] if known else name]
    return "/".join(part for part in parts if part) + "/"


def a_private_push_creates_an_identical_dataset(node: NodeUnderTest) -> None:
    _expect_created(node, "Private")


def a_public_push_creates_a_dataset_anybody_reads(node: NodeUnderTest) -> None:
    made = _expect_created(node, "Public")
    expect("head for anybody", node.mimic(made.url, "").head(), made.chain.head)


def _expect_created(node: NodeUnderTest, visibility: str) -> PublishedChain:
    made = PublishedChain(node.fresh(), ten_records())
    mimic = node.mimic(made.url)
    result = mimic.push(made.chain, visibility=visibility)
    expect("result", result, Result(None, made.chain.head or "", 4))
    expect_identical(node, made)
    expect("odd messages", mimic.notes, [])
    return made


def a_seed_alone_is_pushed(node: NodeUnderTest) -> None:
    made = PublishedChain(node.fresh(), seeded())
    result = node.mimic(made.url).push(made.chain)
    expect("result", result, Result(None, made.chain.head or "", 1))
    expect_identical(node, made)


def equal_heads_open_no_websocket(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    mimic = node.mimic(made.url)
    expect_true("something was pushed", mimic.push(made.chain).up_to_date)
    expect("requests", mimic.trace, ["GET refs"])


def only_the_new_blocks_are_pushed(node: NodeUnderTest) -> None:
    before = node.publish(without_data())
    after = PublishedChain(before.url, evolved(before.chain))
    result = node.mimic(before.url).push(after.chain)
    expect("result", result, Result(before.chain.head, after.chain.head or "", 2))
    expect_identical(node, after)


def a_compacted_history_is_pushed_by_force(node: NodeUnderTest) -> None:
    key = os.urandom(32)
    old = node.publish(grown(key))
    new = PublishedChain(old.url, compacted(key))
    with gives_up(CloseReason.INVALID_INTERVAL):
        node.mimic(old.url).push(new.chain)
    result = node.mimic(old.url).push(new.chain, force=True)
    expect("result", result, Result(old.chain.head, new.chain.head or "", 4))
    expect_identical(node, new)


def a_node_that_is_ahead_is_left_alone(node: NodeUnderTest) -> None:
    before = without_data()
    ahead = node.publish(before.copy().add(described("theirs")))
    with gives_up(CloseReason.INVALID_INTERVAL):
        node.mimic(ahead.url).push(before)
    expect("head", node.mimic(ahead.url).head(), ahead.chain.head)


def objects_that_arrived_before_are_skipped(node: NodeUnderTest) -> None:
    before = node.publish(without_data())
    after = PublishedChain(before.url, evolved(before.chain))
    for (folder, name), content in after.chain.objects.items():
        put = node.ask("PUT", f"{before.url}{folder}/{name}", node.token, content)
        expect("upload", put.status, 200)
    mimic = node.mimic(before.url)
    expect("blocks", mimic.push(after.chain).num_blocks, 2)
    expect("requests", mimic.trace, ["GET refs", "upgrade push"])
    expect_identical(node, after)


def a_push_to_a_repository_finds_its_address_by_three_lookups(node: NodeUnderTest) -> None:
    chain = ten_records()
    name = node.fresh().rstrip("/").rpartition("/")[2]
    url = push_target(node.origin, str(chain.id), name, node.token)
    expect("address", url, node.address(name))
    expect("blocks", node.mimic(url).push(chain).num_blocks, 4)
    renamed = push_target(node.origin, str(chain.id), "local-name", node.token)
    expect("address of what is there", renamed, url)


def a_push_without_a_token_is_unauthenticated(node: NodeUnderTest) -> None:
    with gives_up(CloseReason.UNAUTHENTICATED, status=401):
        node.mimic(node.fresh(), "").push(seeded())


def a_push_into_a_foreign_account_is_unauthorized(node: NodeUnderTest) -> None:
    with gives_up(CloseReason.UNAUTHORIZED, status=403):
        node.mimic(node.fresh("conformance-nobody")).push(seeded())


def a_private_dataset_is_not_found_by_anybody(node: NodeUnderTest) -> None:
    _expect_hidden(node, "")


def a_private_dataset_is_not_found_by_another_account(node: NodeUnderTest) -> None:
    _expect_hidden(node, node.other)


def _expect_hidden(node: NodeUnderTest, token: str | None) -> None:
    made = node.base("ten records", ten_records)
    mimic = node.mimic(made.url, token)
    expect("head", mimic.head(), None)
    missing = node.mimic(node.address("conformance-nothing-here"), token)
    try:
        mimic.push(evolved(made.chain))
    except GaveUp as ended:
        if ended.why is CloseReason.NOT_FOUND:
            return
        with gives_up(ended.why, **ended.facts):  # as for a missing dataset, which tells even less
            missing.push(evolved(made.chain))
        return
    raise Deviation("a push to a private dataset of another account succeeds")


def an_id_has_one_name_on_a_node(node: NodeUnderTest) -> None:
    made = node.base("ten records", ten_records)
    elsewhere = node.mimic(node.fresh())
    with gives_up(CloseReason.REF_COLLISION, dataset_id=str(made.chain.id)):
        elsewhere.push(made.chain)
    expect("head at the second name", elsewhere.head(), None)


def another_dataset_under_the_name_is_refused_even_by_force(node: NodeUnderTest) -> None:
    made, stranger = node.base("ten records", ten_records), ten_records()
    with gives_up(CloseReason.INVALID_INTERVAL):
        node.mimic(made.url).push(stranger)
    with gives_up(CloseReason.OVERWRITE_SEED):
        node.mimic(made.url).push(stranger, force=True)
    expect("head", node.mimic(made.url).head(), made.chain.head)


def another_version_is_refused_for_push(node: NodeUnderTest) -> None:
    expect_refused_version(node, node.fresh() + "push", node.token)


def the_account_in_an_address_has_no_case(node: NodeUnderTest) -> None:
    account = (node.account or "").upper()
    made = PublishedChain(node.fresh(account), seeded())
    expect("blocks", node.mimic(made.url).push(made.chain).num_blocks, 1)
    expect("head", node.mimic(made.url.replace(account, account.lower())).head(), made.chain.head)


# --- simple pull


def a_missing_dataset_is_not_found(node: NodeUnderTest) -> None:
    nothing = node.address("conformance-nothing-here")
    with gives_up(CloseReason.NOT_FOUND):
        node.mimic(nothing, "").simple_pull(Chain())


def a_first_simple_pull_receives_everything(node: NodeUnderTest) -> None:
    shown, local = node.shown, Chain()
    mimic = node.mimic(shown.url, "")
    result = mimic.simple_pull(local, take=lambda file: object_name(file) in shown.chain.objects)
    expect("result", result, Result(None, shown.chain.head or "", len(shown.chain.blocks)))
    expect_true("blocks or objects differ", local == shown.chain)


def a_simple_pull_into_what_is_ahead_is_told_by_how_much(node: NodeUnderTest) -> None:
    local = node.shown.chain.copy().add(described("one")).add(described("two"))
    with gives_up(CloseReason.AHEAD, by=2):
        node.mimic(node.shown.url, "").simple_pull(local)


def a_simple_pull_receives_only_what_is_new(node: NodeUnderTest) -> None:
    shown = node.shown
    if len(shown.chain.blocks) < 3:
        return
    local = shown.chain.upto(len(shown.chain.blocks) - 2)
    mimic = node.mimic(shown.url, "")
    result = mimic.simple_pull(local, take=lambda file: object_name(file) in shown.chain.objects)
    expect("blocks", result.num_blocks, 2)
    expect("blocks asked for", mimic.trace.count("GET blocks"), 2)
    expect_true("chains differ", local == shown.chain)


def a_simple_pull_of_what_is_known_is_up_to_date(node: NodeUnderTest) -> None:
    mimic = node.mimic(node.shown.url, "")
    expect_true("something was pulled", mimic.simple_pull(node.shown.chain.copy()).up_to_date)


def a_remote_that_was_rewound_is_followed_by_force_only(node: NodeUnderTest) -> None:
    ahead = ten_records().add(described("to be forgotten"))
    made = node.publish(ahead)
    mimic, short = node.mimic(made.url), ahead.upto(4)
    mimic.push(short, force=True)
    local = ahead.copy()
    with gives_up(CloseReason.AHEAD, by=1):
        mimic.simple_pull(local)
    result = mimic.simple_pull(local, force=True)
    expect("result", result, Result(ahead.head, short.head or "", 4))
    expect_true("blocks differ", local.blocks == short.blocks)


WRITING, MULTI, OTHER = NodeNeed.WRITING, NodeNeed.MULTI, NodeNeed.OTHER
CHECKS = (
    check("B01", a_private_push_creates_an_identical_dataset, WRITING),
    check("B02", a_public_push_creates_a_dataset_anybody_reads, WRITING),
    check("B03", a_seed_alone_is_pushed, WRITING),
    check("B04", equal_heads_open_no_websocket, WRITING),
    check("B05", only_the_new_blocks_are_pushed, WRITING),
    check("B06", a_compacted_history_is_pushed_by_force, WRITING),
    check("B07", a_node_that_is_ahead_is_left_alone, WRITING),
    check("B09", objects_that_arrived_before_are_skipped, WRITING),
    check("B10", a_push_to_a_repository_finds_its_address_by_three_lookups, WRITING),
    check("B11", a_push_without_a_token_is_unauthenticated, WRITING),
    check("B12", a_push_into_a_foreign_account_is_unauthorized, WRITING, MULTI),
    check("B13", a_private_dataset_is_not_found_by_anybody, WRITING, MULTI),
    check("B14", a_private_dataset_is_not_found_by_another_account, WRITING, MULTI, OTHER),
    check("B15", an_id_has_one_name_on_a_node, WRITING),
    check("B16", another_version_is_refused_for_push, WRITING),
    check("D02", a_missing_dataset_is_not_found),
    check("D05", a_first_simple_pull_receives_everything),
    check("D06", a_simple_pull_into_what_is_ahead_is_told_by_how_much),
    check("D08", a_simple_pull_receives_only_what_is_new),
    check("D09", a_simple_pull_of_what_is_known_is_up_to_date),
    check("D12 D13", a_remote_that_was_rewound_is_followed_by_force_only, WRITING),
    check("Z13", another_dataset_under_the_name_is_refused_even_by_force, WRITING),
    check("Z30", the_account_in_an_address_has_no_case, WRITING, MULTI),
)
