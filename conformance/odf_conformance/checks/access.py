"""Checks of tokens, rights and addresses, and of the information that a node gives about itself."""

from __future__ import annotations

from functools import partial

from ..chains import CHECKPOINTS, hash_of, ten_records
from ..http import request
from ..node import (
    ConformanceCheck,
    NodeNeed,
    NodeUnderTest,
    PublishedChain,
    check,
    expect,
    expect_answer,
    expect_true,
    json_of,
    path_of,
)
from ..websocket import HandshakeRefused, WebSocket

WRONG_TOKEN = "bad-access-token"  # noqa: S105
VERSION = ("x-odf-smtp-version", "1")


def a_request_without_a_header_is_anonymous(node: NodeUnderTest) -> None:
    expect_answer(node.ask("GET", "/info"), 200)


def a_valid_token_stands_for_its_account(node: NodeUnderTest) -> None:
    me = node.ask("GET", "/accounts/me", node.token)
    expect_answer(me, 200)
    expect("account", json_of(me).get("accountName", "").lower(), (node.account or "").lower())


def an_expired_token_alone_fails_nothing(node: NodeUnderTest) -> None:
    expect_answer(node.ask("GET", "/info", node.expired), 200)


def an_empty_bearer_is_a_bad_request(node: NodeUnderTest) -> None:
    for value in ("Bearer ", "Bearer", "Basic dTpw"):
        for url in (node.origin + "/info", node.shown.url + "refs/head"):
            answer = request("GET", url, [("authorization", value)])
            expect_answer(answer, 400, body=b"Invalid Bearer token header")


def an_unknown_token_alone_fails_nothing(node: NodeUnderTest) -> None:
    expect_answer(node.ask("GET", "/info", WRONG_TOKEN), 200)


# --- the table of rights

PUBLIC, PRIVATE = "Public", "Private"
READ, WRITE, PUSH = "read", "write", "push"


def status_for(node: NodeUnderTest, caller: str, visibility: str, action: str, status: int) -> None:
    """Check one line of the table: a caller, the visibility of a dataset, a request, its status."""
    made = _dataset(node, visibility)
    token = {"anonymous": "", "stranger": node.other, "owner": node.token}[caller]
    if action == READ:
        for path in ("refs/head", f"blocks/{made.chain.head}"):
            for method in ("GET", "HEAD"):
                expect_answer(node.ask(method, made.url + path, token), status)
    elif action == PUSH:
        answered = _upgrade(made.url + "push", token)
        if status == 404:  # or as for a missing dataset, which tells even less
            missing = _upgrade(node.address("conformance-nothing-here") + "push", token)
            expect_true(f"the upgrade is answered {answered}", answered in (404, missing))
        else:
            expect("status of the upgrade", answered, status)
    else:
        content = b"a checkpoint of nothing"
        put = node.ask("PUT", f"{made.url}{CHECKPOINTS}/{hash_of(content)}", token, content)
        expect_answer(put, status)
        if status != 200:
            expect_answer(node.ask("POST", made.url + "ingest", token, b"[]"), status)


def _dataset(node: NodeUnderTest, visibility: str) -> PublishedChain:
    return node.shown if visibility == PUBLIC else node.base("ten records", ten_records)


def _upgrade(url: str, token: str | None) -> int:
    bearer = [("authorization", f"Bearer {token}")] if token else []
    try:
        WebSocket.open(url, [VERSION, *bearer]).drop()
    except HandshakeRefused as refusal:
        return refusal.status
    return 200


def _line(id: str, caller: str, visibility: str, action: str, status: int) -> ConformanceCheck:  # noqa: A002
    needs = [NodeNeed.WRITING]
    needs += [NodeNeed.OTHER] if caller == "stranger" else []
    needs += [NodeNeed.MULTI] if visibility == PRIVATE and caller != "owner" else []
    who = {"anonymous": "anybody", "stranger": "another account", "owner": "the owner"}[caller]
    hides = action == PUSH and status == 404
    answer = "404, or as that of a missing one" if hides else status
    title = f"{action} of a {visibility.lower()} dataset by {who} is answered {answer}"
    run = partial(status_for, caller=caller, visibility=visibility, action=action, status=status)
    return ConformanceCheck(id, run, tuple(needs), title)


RIGHTS = (
    _line("I01", "anonymous", PRIVATE, WRITE, 404),
    _line("I02", "anonymous", PUBLIC, WRITE, 403),
    _line("I03", "stranger", PRIVATE, WRITE, 404),
    _line("I04", "stranger", PUBLIC, WRITE, 403),
    _line("I05", "owner", PRIVATE, WRITE, 200),
    _line("I06", "anonymous", PRIVATE, READ, 404),
    _line("I07", "anonymous", PUBLIC, READ, 200),
    _line("I09", "stranger", PRIVATE, READ, 404),
    _line("I10", "stranger", PUBLIC, READ, 200),
    _line("I11", "owner", PRIVATE, READ, 200),
    _line("I12", "anonymous", PRIVATE, PUSH, 404),
    _line("I13 Z25", "anonymous", PUBLIC, PUSH, 403),
    _line("I15", "stranger", PRIVATE, PUSH, 404),
    _line("I16", "stranger", PUBLIC, PUSH, 403),
    _line("I17", "owner", PRIVATE, PUSH, 200),
)


def an_invalid_token_is_told_where_a_dataset_is(node: NodeUnderTest) -> None:
    answer = node.ask("GET", node.shown.url + "refs/head", WRONG_TOKEN)
    expect_answer(answer, 401, body=b"Authentication token invalid")


# --- addresses


def a_dataset_is_found_by_its_name(node: NodeUnderTest) -> None:
    answer = node.ask("GET", node.shown.url + "refs/head")
    expect_answer(answer, 200, body=(node.shown.chain.head or "").encode())


def names_have_no_case(node: NodeUnderTest) -> None:
    path = path_of(node.shown.url).upper()
    answer = node.ask("GET", node.origin + path + "refs/head")
    expect_answer(answer, 200, body=(node.shown.chain.head or "").encode())


def a_segment_that_is_no_name_is_a_bad_request(node: NodeUnderTest) -> None:
    for name in ("-foo", "foo_bar", "foo..bar", "%20"):
        expect_answer(node.ask("GET", node.address(name) + "refs/head"), 400, body=b"")


def a_name_nobody_has_is_not_found(node: NodeUnderTest) -> None:
    url = node.address("non.existing.dataset")
    expect_answer(node.ask("GET", url + "refs/head"), 404, body=b"")
    expect_answer(node.ask("GET", url + f"blocks/{node.shown.chain.head}"), 404, body=b"")


def an_address_of_nothing_says_not_found(node: NodeUnderTest) -> None:
    expect_answer(node.ask("GET", "/a/b/c/d/e"), 404, body=b"Not Found")


# --- the node


def tenancy_is_told(node: NodeUnderTest) -> None:
    expect("/info", json_of(node.ask("GET", "/info")), {"isMultiTenant": node.multi})


def a_wrong_token_has_no_account(node: NodeUnderTest) -> None:
    answer = node.ask("GET", "/accounts/me", WRONG_TOKEN)
    expect_answer(answer, 401, message="Unauthenticated")


def the_account_of_a_token_is_told(node: NodeUnderTest) -> None:
    me = json_of(node.ask("GET", "/accounts/me", node.token))
    expect("fields", sorted(me), ["accountName", "id"])
    expect_true("the id is no did:odf", str(me["id"]).startswith("did:odf:"))


def a_dataset_is_named_by_its_id(node: NodeUnderTest) -> None:
    wanted = str(node.shown.chain.id)
    answer = node.ask("GET", f"/datasets/{wanted}")
    expect_answer(answer, 200)
    found = json_of(answer)
    *account, name = path_of(node.shown.url).strip("/").split("/")
    expect("id", found.get("id"), wanted)
    expect("name", str(found.get("datasetName")).lower(), name.lower())
    owner = found.get("owner") or {}
    if account and owner:
        expect("owner", str(owner.get("accountName")).lower(), account[0].lower())
        expect_true("owner has no id", "accountId" in owner)


def an_unknown_id_is_not_found(node: NodeUnderTest) -> None:
    answer = node.ask("GET", "/datasets/did:odf:fed01" + "ab" * 32)
    expect_answer(answer, 404, message="Not Found")


def nobody_has_no_account(node: NodeUnderTest) -> None:
    expect_answer(node.ask("GET", "/accounts/me"), 401)


def a_valid_token_validates(node: NodeUnderTest) -> None:
    answer = node.ask("GET", "/platform/token/validate", node.token)
    expect_answer(answer, 200, body=b"")


def an_expired_token_does_not_validate(node: NodeUnderTest) -> None:
    answer = node.ask("GET", "/platform/token/validate", node.expired)
    expect_answer(answer, 401, message="Authentication token expired")


def an_unknown_token_does_not_validate(node: NodeUnderTest) -> None:
    answer = node.ask("GET", "/platform/token/validate", WRONG_TOKEN)
    expect_answer(answer, 401, message="Authentication token invalid")


def no_token_does_not_validate(node: NodeUnderTest) -> None:
    answer = node.ask("GET", "/platform/token/validate")
    expect_answer(answer, 401, message="No authentication token provided")


def an_expired_token_is_told_where_a_dataset_is(node: NodeUnderTest) -> None:
    there = node.ask("GET", node.shown.url + "refs/head", node.expired)
    expect_answer(there, 401, body=b"Authentication token expired")
    nothing = node.address("conformance-nothing-here") + "refs/head"
    expect_answer(node.ask("GET", nothing, node.expired), 404, body=b"")


def an_expired_token_creates_nothing(node: NodeUnderTest) -> None:
    url = node.address("conformance-nothing-here") + "push"
    expect("status of the upgrade", _upgrade(url, node.expired), 401)
    expect("status of the upgrade", _upgrade(url, WRONG_TOKEN), 401)


WRITING, EXPIRED = NodeNeed.WRITING, NodeNeed.EXPIRED
CHECKS = (
    check("H01", a_request_without_a_header_is_anonymous),
    check("H02", a_valid_token_stands_for_its_account, WRITING),
    check("H03", an_expired_token_alone_fails_nothing, EXPIRED),
    check("H04", an_empty_bearer_is_a_bad_request),
    check("H05", an_unknown_token_alone_fails_nothing),
    *RIGHTS,
    check("I18", an_invalid_token_is_told_where_a_dataset_is),
    check("J03 J05", a_dataset_is_found_by_its_name),
    check("J04", names_have_no_case),
    check("J06", a_segment_that_is_no_name_is_a_bad_request),
    check("J07", a_name_nobody_has_is_not_found),
    check("J08", an_address_of_nothing_says_not_found),
    check("K01", tenancy_is_told),
    check("K02", a_wrong_token_has_no_account),
    check("K03", the_account_of_a_token_is_told, WRITING),
    check("K04", a_dataset_is_named_by_its_id),
    check("K05", an_unknown_id_is_not_found),
    check("K07", nobody_has_no_account),
    check("L01", a_valid_token_validates, WRITING),
    check("L03", an_expired_token_does_not_validate, EXPIRED),
    check("L04", an_unknown_token_does_not_validate),
    check("L05", no_token_does_not_validate),
    check("Z23", an_expired_token_is_told_where_a_dataset_is, EXPIRED),
    check("Z24", an_expired_token_creates_nothing, EXPIRED, WRITING),
)
