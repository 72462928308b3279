"""Who gets in: the order of checks, and the exact words of those who do not."""

from __future__ import annotations

import pytest
from service import seeded, serving, ten_rows

from storage.values import Visibility

UNSAFE = ("PUT", "POST")


@pytest.fixture(scope="module")
def node(multi):
    """A private and a public dataset of alice."""
    multi.keep(ten_rows(), "alice/private", Visibility.PRIVATE)
    multi.keep(ten_rows(), "alice/public")
    return multi


def ask(node, method, path, token=None, **more):
    with node.http(token) as client:
        return client.request(method, path, **more)


@pytest.mark.parametrize("path", ["/info", "/alice/public/refs/head", "/nothing/at/all", "/x"])
@pytest.mark.parametrize("header", ["Bearer", "Basic YTpi", "nonsense"])
def test_a_malformed_credential_is_refused_before_anything_else(node, path, header):
    answer = ask(node, "GET", path, headers={"authorization": header})
    assert (answer.status_code, answer.text) == (400, "Invalid Bearer token header")


@pytest.mark.parametrize(
    ("caller", "dataset", "read", "write"),
    [
        (None, "public", 200, 403),
        (None, "private", 404, 404),
        (None, "missing", 404, 404),
        ("bob", "public", 200, 403),
        ("bob", "private", 404, 404),
        ("alice", "public", 200, 415),
        ("alice", "private", 200, 415),
    ],
)
def test_reading_and_writing_by_caller_and_dataset(node, caller, dataset, read, write):
    token = node.token(caller) if caller else None
    headers = {"content-type": "application/pdf"}
    for path in ("refs/head", "tail", "metadata", ""):
        address = f"/alice/{dataset}/{path}".rstrip("/")
        assert ask(node, "GET", address, token).status_code == read
    answer = ask(node, "POST", f"/alice/{dataset}/ingest", token, headers=headers)
    assert answer.status_code == write
    if write != 415:
        assert answer.content == b""


def test_a_bad_token_is_told_for_what_exists_and_hidden_for_what_does_not(node):
    expired = node.token("alice", expires_at=node.node.clock())
    for token, text in (
        (expired, "Authentication token expired"),
        ("bad-access-token", "Authentication token invalid"),
    ):
        for method, path in (
            ("GET", "/alice/public/refs/head"),
            ("GET", "/alice/private/refs/head"),
            ("GET", "/alice/public/tail"),
            ("POST", "/alice/public/ingest"),
        ):
            answer = ask(node, method, path, token)
            assert (answer.status_code, answer.text) == (401, text)
        assert ask(node, "GET", "/alice/missing/refs/head", token).status_code == 404
        assert ask(node, "GET", "/info", token).json() == {"isMultiTenant": True}


def test_a_revoked_token_is_invalid_at_once(node):
    token = node.token("carol")
    assert ask(node, "GET", "/accounts/me", token).status_code == 200
    account = node.node.stores.accounts.find_account("carol")
    for stored in node.node.stores.accounts.tokens(account.id):
        node.node.stores.accounts.revoke_token(stored.id)
    assert ask(node, "GET", "/accounts/me", token).status_code == 401


def test_names_are_checked_before_existence_and_tokens(node):
    for path in ("/_/x/refs/head", "/alice/-x/tail", "/alice/x_y/metadata", "/a..b/c/pull"):
        answer = ask(node, "GET", path, "bad-access-token")
        assert (answer.status_code, answer.content) == (400, b"")


def test_the_callers_account_is_told(node):
    token = node.token("alice")
    shown = ask(node, "GET", "/accounts/me", token).json()
    assert shown["accountName"] == "alice"
    assert shown["id"].startswith("did:odf:fed01")
    for token in (None, "bad-access-token"):
        answer = ask(node, "GET", "/accounts/me", token)
        assert answer.status_code == 401
        assert answer.json()["message"] == "Unauthenticated"


def test_a_token_can_be_validated(node):
    expired = node.token("alice", expires_at=node.node.clock())
    valid = ask(node, "GET", "/platform/token/validate", node.token("alice"))
    assert (valid.status_code, valid.content) == (200, b"")
    for token, message in (
        (None, "No authentication token provided"),
        (expired, "Authentication token expired"),
        ("bad-access-token", "Authentication token invalid"),
    ):
        answer = ask(node, "GET", "/platform/token/validate", token)
        assert (answer.status_code, answer.json()["message"]) == (401, message)


def test_a_node_without_anonymous_access_serves_health_and_little_else(tmp_path):
    with serving(tmp_path, allow_anonymous=False) as closed:
        chain = seeded()
        closed.keep(chain)
        for path in ("/foo/refs/head", "/info", f"/datasets/{chain.id}", "/foo/tail"):
            answer = ask(closed, "GET", path)
            assert (answer.status_code, answer.text) == (401, "Anonymous account is restricted")
            assert ask(closed, "GET", path, closed.token()).status_code == 200
        missing = ask(closed, "GET", f"/datasets/{seeded().id}", closed.token())
        assert missing.status_code == 404
        assert ask(closed, "GET", "/system/health").json() == {"ok": True}
        assert ask(closed, "GET", "/platform/token/validate").status_code == 401
        assert ask(closed, "GET", "/openapi.json").status_code == 200


def test_tenancy_is_told(single, multi):
    assert ask(single, "GET", "/info").json() == {"isMultiTenant": False}
    assert ask(multi, "GET", "/info").json() == {"isMultiTenant": True}


@pytest.mark.parametrize("kind", ["liveness", "readiness", "startup"])
def test_health_is_told(single, kind):
    assert ask(single, "GET", f"/system/health?type={kind}").json() == {"ok": True}


def test_an_unknown_address_and_a_wrong_method_are_told_apart(single):
    answer = ask(single, "GET", "/no/such/address/here")
    assert (answer.status_code, answer.text) == (404, "Not Found")
    assert ask(single, "PUT", "/info").status_code == 405
