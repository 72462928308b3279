"""Who gets in: the order of checks, and the exact words of those who do not."""

from __future__ import annotations

import pytest
from service import seeded, serving, ten_rows

from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_storage.stores.ports.values import Scope, Visibility

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
        said = {404: "no dataset", 403: "may not"}[write]
        assert said in answer.json()["detail"]


def test_a_bad_token_is_told_for_what_everybody_may_read(node):
    expired = node.token("alice", expires_at=node.node.clock())
    for token, text in (
        (expired, "Authentication token expired"),
        ("bad-access-token", "Authentication token invalid"),
    ):
        for method, path in (
            ("GET", "/alice/public/refs/head"),
            ("GET", "/alice/public/tail"),
            ("GET", "/alice/public"),
            ("POST", "/alice/public/ingest"),
            ("GET", "/datasets"),
        ):
            answer = ask(node, method, path, token)
            assert (answer.status_code, answer.text) == (401, text)
        assert ask(node, "GET", "/info", token).json() == {"isMultiTenant": True}


ADDRESSES = (
    ("GET", ""),
    ("GET", "/refs/head"),
    ("HEAD", "/refs/head"),
    ("GET", "/blocks/f1620" + 64 * "0"),
    ("GET", "/tail"),
    ("GET", "/metadata"),
    ("GET", "/jobs"),
    ("GET", "/pull"),
    ("GET", "/push"),
    ("POST", "/ingest"),
    ("POST", "/refresh"),
    ("PUT", "/visibility"),
    ("DELETE", ""),
    ("PUT", "/data/f1620" + 64 * "0"),
)


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_with_a_bad_token_what_is_hidden_looks_like_what_is_missing(node, method, path):
    """A push says that the token is bad, for any name; all else, that nothing is there."""
    expired = node.token("alice", expires_at=node.node.clock())
    for token in (expired, "ka_" + "0" * 58, "nonsense"):
        hidden = ask(node, method, f"/alice/private{path}", token)
        missing = ask(node, method, f"/alice/missing{path}", token)
        assert hidden.status_code == (401 if path == "/push" else 404)
        assert _told(hidden) == _told(missing)
        if path != "/push":
            assert hidden.headers["www-authenticate"] == 'Bearer error="invalid_token"'


def test_a_push_to_what_is_hidden_is_answered_as_one_to_what_is_missing(node):
    """Also with a token that may not read, and as an upgrade, which checks in its own order."""
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "x-odf-smtp-version": "1",
    }
    for token in (None, node.token("bob"), node.token("bob", Scope.READ)):
        for headers in ({}, upgrade):
            hidden = ask(node, "GET", "/alice/private/push", token, headers=headers)
            missing = ask(node, "GET", "/alice/missing/push", token, headers=headers)
            assert _told(hidden) == _told(missing)
            assert hidden.status_code in ((401, 403) if headers else (426,))


def _told(answer):
    """All that an answer says, but for what is of each request."""
    own = ("date", "x-trace-id")
    headers = {name: text for name, text in answer.headers.items() if name not in own}
    trace = answer.headers.get("x-trace-id", "-")
    return answer.status_code, headers, answer.text.replace(trace, "")


def test_on_a_single_tenant_node_private_is_private(tmp_path):
    with serving(tmp_path) as service:
        service.keep(ten_rows(), "kamu/private", Visibility.PRIVATE)
        service.keep(ten_rows(), "kamu/public")
        for path in ("refs/head", "tail", "metadata", ""):
            for token in (None, service.token("stranger")):
                assert ask(service, "GET", f"/private/{path}".rstrip("/"), token).status_code == 404
                assert ask(service, "GET", f"/public/{path}".rstrip("/"), token).status_code == 200
            owned = ask(service, "GET", f"/private/{path}".rstrip("/"), service.token())
            assert owned.status_code == 200
        listed = ask(service, "GET", "/datasets").json()["datasets"]
        assert [each["alias"] for each in listed] == ["public"]
        page = ask(service, "GET", "/", headers={"accept": "text/html"}).text
        assert "/private" not in page
        assert "private ones, too" not in page


def test_a_workshop_shows_everything_and_says_so(tmp_path):
    with serving(tmp_path, anonymous_reads="all") as service:
        service.keep(ten_rows(), "kamu/private", Visibility.PRIVATE)
        assert ask(service, "GET", "/private/refs/head").status_code == 200
        assert ask(service, "GET", "/private/tail").status_code == 200
        assert ask(service, "POST", "/private/ingest").status_code == 403
        page = ask(service, "GET", "/", headers={"accept": "text/html"}).text
        assert "private ones, too" in page


@pytest.mark.parametrize("path", ["/alice%2fpublic/refs/head", "/alice%2Fpublic", "/x%5Cy/z"])
def test_an_encoded_slash_divides_nothing(node, path):
    """What stands in front of the node and judges addresses sees the same segments."""
    for token in (None, node.token("alice")):
        for accept in ("application/json", "text/html"):
            answer = ask(node, "GET", path, token, headers={"accept": accept})
            assert (answer.status_code, answer.content) == (400, b"")


def test_every_answer_is_what_its_type_says(node):
    head = node.node.stores.refs.head
    entry = node.node.stores.registry.find(DatasetRef(alias=DatasetAlias.parse("alice/public")))
    block = f"/alice/public/blocks/{head(entry.id)}"
    for path in (
        "/info",
        "/alice/public",
        "/alice/public/refs/head",
        block,
        block,
        "/nothing/here",
    ):
        for accept in ("application/json", "text/html"):
            answer = ask(node, "GET", path, headers={"accept": accept})
            assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


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
        assert answer.status_code == 400
        is_transfer = path.endswith(("refs/head", "pull"))
        assert (answer.content == b"") == is_transfer


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
    refused = ask(single, "PUT", "/info")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert "/info takes no PUT" in refused.json()["detail"]


@pytest.mark.parametrize("path", ["/wether", "/wether/tail", "/favicon.ico"])
def test_a_mistyped_address_says_what_is_not_there(single, path):
    answer = ask(single, "GET", path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
