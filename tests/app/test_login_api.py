"""Logging in over HTTP: sessions for passwords, exact refusals, bounded guessing."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace

import pytest
from service import seeded, serving, ten_rows

from odf_node.service.accounts.accounts import create_account, set_password
from odf_node.service.accounts.login import begin_session
from odf_protocol.instant import NANOS, Instant

REJECTED = "Rejected credentials: invalid login or password"


def with_password(service, name, password):
    node, accounts = service.node, service.node.stores.accounts
    account = accounts.find_account(name) or create_account(accounts, name, os.urandom)
    set_password(accounts, account, password, os.urandom, node.clock(), node.passwords.cost)
    return account


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"tenancy": "multi", "password_work": 2, "login_attempts": 3}
    with serving(tmp_path_factory.mktemp("login"), **settings) as service:
        with_password(service, "wasya", "pwd_wasya")
        yield service


@pytest.fixture
def client(node):
    node.node.throttle._windows.clear()
    with node.http() as client:
        yield client


def log_in(client, login, password, method="password"):
    credentials = json.dumps({"login": login, "password": password})
    body = {"loginMethod": method, "loginCredentialsJson": credentials}
    return client.post("/platform/login", json=body)


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_a_password_opens_a_session_that_is_valid(client):
    answer = log_in(client, "WASYA", "pwd_wasya")
    assert answer.status_code == 200
    assert list(answer.json()) == ["accessToken"]
    assert answer.headers["cache-control"] == "no-store"
    token = bearer(answer.json()["accessToken"])
    valid = client.get("/platform/token/validate", headers=token)
    assert (valid.status_code, valid.content) == (200, b"")
    assert client.get("/accounts/me", headers=token).json()["accountName"] == "wasya"


@pytest.mark.parametrize(
    ("login", "password"),
    [
        ("wasya", "wrong"),
        ("wasya", ""),
        ("nobody", "pwd_wasya"),
        ("\0", "x"),
        ("x" * 500, "y" * 5000),
    ],
)
def test_a_wrong_password_and_an_unknown_login_are_refused_alike(client, login, password):
    answer = log_in(client, login, password)
    assert (answer.status_code, answer.json()["message"]) == (401, REJECTED)


def test_an_account_without_a_password_cannot_log_in(node, client):
    node.token("tokens-only")
    assert log_in(client, "tokens-only", "").status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"loginMethod":"password"}',
        b'{"loginMethod":"password","loginCredentialsJson":{"login":"a","password":"b"}}',
        b'{"loginMethod":"password","loginCredentialsJson":"nonsense"}',
        b'{"loginMethod":"password","loginCredentialsJson":"{\\"login\\":5}"}',
        b'{"loginMethod":"oauth_github","loginCredentialsJson":"{}"}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_login_is_refused(client, body):
    answer = client.post("/platform/login", content=body)
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_an_unknown_method_is_named(client):
    answer = log_in(client, "wasya", "pwd_wasya", method="web3-wallet")
    assert answer.status_code == 400
    assert "web3-wallet" in answer.json()["message"]


def test_a_login_longer_than_needed_is_not_read(client):
    assert client.post("/platform/login", content=b"x" * 100_000).status_code == 413


def test_after_too_many_failures_even_the_right_password_has_to_wait(client):
    for _ in range(3):
        assert log_in(client, "wasya", "wrong").status_code == 401
    answer = log_in(client, "wasya", "pwd_wasya")
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 301
    policy, left = answer.headers["ratelimit-policy"], answer.headers["ratelimit"]
    assert re.fullmatch(r'"TooManyAttempts";q=\d+;w=300', policy)
    assert left == f'"TooManyAttempts";r=0;t={answer.headers["retry-after"]}'
    told = answer.json()["detail"]
    assert "an administrator of the node can raise ODF_NODE_LOGIN_ATTEMPTS" in told
    assert log_in(client, "somebody", "else").status_code == 401


def test_a_session_of_two_days_ago_is_expired_and_a_strange_one_invalid(node, client):
    wasya = node.node.stores.accounts.find_account("wasya")
    sessions, entry = node.node.sessions, node.keep(ten_rows(), "wasya/data")
    ago = replace(sessions, clock=lambda: Instant(sessions.clock().ns - 2 * 86_400 * NANOS))
    old, fresh = begin_session(ago, wasya).token, begin_session(sessions, wasya).token
    for token, text in (
        (old, "Authentication token expired"),
        (fresh[:-2] + "xx", "Authentication token invalid"),
        ("bad-access-token", "Authentication token invalid"),
    ):
        answer = client.get("/platform/token/validate", headers=bearer(token))
        assert (answer.status_code, answer.json()["message"]) == (401, text)
        told = client.get("/wasya/data/refs/head", headers=bearer(token))
        assert (told.status_code, told.text) == (401, text)
        hidden = client.get("/wasya/missing/refs/head", headers=bearer(token))
        assert (hidden.status_code, hidden.content) == (404, b"")
    head = client.get("/wasya/data/refs/head", headers=bearer(fresh))
    assert head.text == str(node.node.stores.refs.head(entry.id))


def test_sessions_outlive_the_process(tmp_path):
    with serving(tmp_path, password_work=2) as service:
        with_password(service, "kamu", "kamu-kamu")
        with service.http() as client:
            token = log_in(client, "kamu", "kamu-kamu").json()["accessToken"]
    with serving(tmp_path) as service, service.http(token) as client:
        assert client.get("/accounts/me").json()["accountName"] == "kamu"


def test_accounts_are_shown_to_those_who_have_one(node, client):
    token = bearer(node.token("alice"))
    wasya = node.node.stores.accounts.find_account("wasya")
    shown = client.get("/accounts/WASYA", headers=token)
    assert shown.json() == {"id": wasya.id, "accountName": "wasya"}
    assert client.get("/accounts/nobody", headers=token).status_code == 404
    assert client.get("/accounts/wasya").status_code == 401


def test_a_closed_node_lets_people_log_in_and_nothing_else(tmp_path):
    with serving(tmp_path, password_work=2, allow_anonymous=False) as service:
        with_password(service, "kamu", "kamu-kamu")
        service.keep(seeded(), "kamu/openapi-data")
        with service.http() as client:
            token = log_in(client, "kamu", "kamu-kamu").json()["accessToken"]
            assert client.get("/assets/runtime-config.json").status_code == 200
            assert client.get("/v/login?deviceCode=x").status_code == 404
            assert client.post("/platform/token/device").status_code == 400
            for path in (
                "/openapi-data/refs/head",
                "/accounts/kamu",
                "/platform/file/upload/x",
                "/system",
                "/platform/logins",
            ):
                answer = client.get(path)
                assert (answer.status_code, answer.text) == (401, "Anonymous account is restricted")
            head = client.get("/openapi-data/refs/head", headers=bearer(token))
            assert head.status_code == 200


def test_pages_of_any_origin_may_ask(client):
    asked = {
        "origin": "https://elsewhere.example",
        "access-control-request-headers": "authorization,odf-event-time",
    }
    for method in ("GET", "POST", "PUT", "DELETE"):
        answer = client.options(
            "/wasya/data/data/f1620", headers={**asked, "access-control-request-method": method}
        )
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert method in answer.headers["access-control-allow-methods"]
        assert "odf-event-time" in answer.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in answer.headers
    for path in ("/info", "/wasya/missing/refs/head", "/platform/token/validate"):
        answer = client.get(path, headers={"origin": "https://elsewhere.example"})
        assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in client.get("/info").headers
