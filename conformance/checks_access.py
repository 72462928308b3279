"""Checks of who asks, who may do what, addresses, and what a node says of itself."""

from __future__ import annotations

from functools import partial

from .bench import (
    Bench,
    Check,
    Need,
    Published,
    check,
    expect,
    expect_answer,
    expect_true,
    json_of,
    path_of,
)
from .chains import CHECKPOINTS, hash_of, ten_records
from .http import request
from .websocket import HandshakeRefused, WebSocket

WRONG_TOKEN = "bad-access-token"  # noqa: S105
VERSION = ("x-odf-smtp-version", "1")


def a_request_without_a_header_is_anonymous(bench: Bench) -> None:
    expect_answer(bench.ask("GET", "/info"), 200)


def a_valid_token_stands_for_its_account(bench: Bench) -> None:
    me = bench.ask("GET", "/accounts/me", bench.token)
    expect_answer(me, 200)
    expect("account", json_of(me).get("accountName", "").lower(), (bench.account or "").lower())


def an_expired_token_alone_fails_nothing(bench: Bench) -> None:
    expect_answer(bench.ask("GET", "/info", bench.expired), 200)


def an_empty_bearer_is_a_bad_request(bench: Bench) -> None:
    for value in ("Bearer ", "Bearer", "Basic dTpw"):
        for url in (bench.origin + "/info", bench.shown.url + "refs/head"):
            answer = request("GET", url, [("authorization", value)])
            expect_answer(answer, 400, body=b"Invalid Bearer token header")


def an_unknown_token_alone_fails_nothing(bench: Bench) -> None:
    expect_answer(bench.ask("GET", "/info", WRONG_TOKEN), 200)


# --- the table of rights

PUBLIC, PRIVATE = "Public", "Private"
READ, WRITE, PUSH = "read", "write", "push"


def status_for(bench: Bench, caller: str, visibility: str, action: str, status: int) -> None:
    """One line of the table: this caller, such a dataset, that request, this answer."""
    made = _dataset(bench, visibility)
    token = {"anonymous": "", "stranger": bench.other, "owner": bench.token}[caller]
    if action == READ:
        for path in ("refs/head", f"blocks/{made.chain.head}"):
            for method in ("GET", "HEAD"):
                expect_answer(bench.ask(method, made.url + path, token), status)
    elif action == PUSH:
        expect("status of the upgrade", _upgrade(made.url + "push", token), status)
    else:
        content = b"a checkpoint of nothing"
        put = bench.ask("PUT", f"{made.url}{CHECKPOINTS}/{hash_of(content)}", token, content)
        expect_answer(put, status)
        if status != 200:
            expect_answer(bench.ask("POST", made.url + "ingest", token, b"[]"), status)


def _dataset(bench: Bench, visibility: str) -> Published:
    return bench.shown if visibility == PUBLIC else bench.base("ten records", ten_records)


def _upgrade(url: str, token: str | None) -> int:
    bearer = [("authorization", f"Bearer {token}")] if token else []
    try:
        WebSocket.open(url, [VERSION, *bearer]).drop()
    except HandshakeRefused as refusal:
        return refusal.status
    return 200


def _line(id: str, caller: str, visibility: str, action: str, status: int) -> Check:  # noqa: A002
    needs = [Need.WRITING]
    needs += [Need.OTHER] if caller == "stranger" else []
    needs += [Need.MULTI] if visibility == PRIVATE and caller != "owner" else []
    who = {"anonymous": "anybody", "stranger": "another account", "owner": "the owner"}[caller]
    title = f"{action} of a {visibility.lower()} dataset by {who} is answered {status}"
    run = partial(status_for, caller=caller, visibility=visibility, action=action, status=status)
    return Check(id, run, tuple(needs), title)


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


def an_invalid_token_is_told_where_a_dataset_is(bench: Bench) -> None:
    answer = bench.ask("GET", bench.shown.url + "refs/head", WRONG_TOKEN)
    expect_answer(answer, 401, body=b"Authentication token invalid")


# --- addresses


def a_dataset_is_found_by_its_name(bench: Bench) -> None:
    answer = bench.ask("GET", bench.shown.url + "refs/head")
    expect_answer(answer, 200, body=(bench.shown.chain.head or "").encode())


def names_have_no_case(bench: Bench) -> None:
    path = path_of(bench.shown.url).upper()
    answer = bench.ask("GET", bench.origin + path + "refs/head")
    expect_answer(answer, 200, body=(bench.shown.chain.head or "").encode())


def a_segment_that_is_no_name_is_a_bad_request(bench: Bench) -> None:
    for name in ("-foo", "foo_bar", "foo..bar", "%20"):
        expect_answer(bench.ask("GET", bench.address(name) + "refs/head"), 400, body=b"")


def a_name_nobody_has_is_not_found(bench: Bench) -> None:
    url = bench.address("non.existing.dataset")
    expect_answer(bench.ask("GET", url + "refs/head"), 404, body=b"")
    expect_answer(bench.ask("GET", url + f"blocks/{bench.shown.chain.head}"), 404, body=b"")


def an_address_of_nothing_says_not_found(bench: Bench) -> None:
    expect_answer(bench.ask("GET", "/a/b/c/d/e"), 404, body=b"Not Found")


# --- the node


def tenancy_is_told(bench: Bench) -> None:
    expect("/info", json_of(bench.ask("GET", "/info")), {"isMultiTenant": bench.multi})


def a_wrong_token_has_no_account(bench: Bench) -> None:
    answer = bench.ask("GET", "/accounts/me", WRONG_TOKEN)
    expect_answer(answer, 401, message="Unauthenticated")


def the_account_of_a_token_is_told(bench: Bench) -> None:
    me = json_of(bench.ask("GET", "/accounts/me", bench.token))
    expect("fields", sorted(me), ["accountName", "id"])
    expect_true("the id is no did:odf", str(me["id"]).startswith("did:odf:"))


def a_dataset_is_named_by_its_id(bench: Bench) -> None:
    wanted = str(bench.shown.chain.id)
    answer = bench.ask("GET", f"/datasets/{wanted}")
    expect_answer(answer, 200)
    found = json_of(answer)
    *account, name = path_of(bench.shown.url).strip("/").split("/")
    expect("id", found.get("id"), wanted)
    expect("name", str(found.get("datasetName")).lower(), name.lower())
    owner = found.get("owner") or {}
    if account and owner:
        expect("owner", str(owner.get("accountName")).lower(), account[0].lower())
        expect_true("owner has no id", "accountId" in owner)


def an_unknown_id_is_not_found(bench: Bench) -> None:
    answer = bench.ask("GET", "/datasets/did:odf:fed01" + "ab" * 32)
    expect_answer(answer, 404, message="Not Found")


def nobody_has_no_account(bench: Bench) -> None:
    expect_answer(bench.ask("GET", "/accounts/me"), 401)


def a_valid_token_validates(bench: Bench) -> None:
    answer = bench.ask("GET", "/platform/token/validate", bench.token)
    expect_answer(answer, 200, body=b"")


def an_expired_token_does_not_validate(bench: Bench) -> None:
    answer = bench.ask("GET", "/platform/token/validate", bench.expired)
    expect_answer(answer, 401, message="Authentication token expired")


def an_unknown_token_does_not_validate(bench: Bench) -> None:
    answer = bench.ask("GET", "/platform/token/validate", WRONG_TOKEN)
    expect_answer(answer, 401, message="Authentication token invalid")


def no_token_does_not_validate(bench: Bench) -> None:
    answer = bench.ask("GET", "/platform/token/validate")
    expect_answer(answer, 401, message="No authentication token provided")


def an_expired_token_is_told_where_a_dataset_is(bench: Bench) -> None:
    there = bench.ask("GET", bench.shown.url + "refs/head", bench.expired)
    expect_answer(there, 401, body=b"Authentication token expired")
    nothing = bench.address("conformance-nothing-here") + "refs/head"
    expect_answer(bench.ask("GET", nothing, bench.expired), 404, body=b"")


def an_expired_token_creates_nothing(bench: Bench) -> None:
    url = bench.address("conformance-nothing-here") + "push"
    expect("status of the upgrade", _upgrade(url, bench.expired), 401)
    expect("status of the upgrade", _upgrade(url, WRONG_TOKEN), 401)


WRITING, EXPIRED = Need.WRITING, Need.EXPIRED
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
