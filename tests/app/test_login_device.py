"""Logging in a command line by way of a page in the browser."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest
from service import serving

from odf_node.service.accounts.accounts import create_account, set_password
from odf_node.service.accounts.login import EARLIEST_POLL_S, await_device
from odf_node.service.schedules.routes import prune
from odf_protocol.instant import NANOS, Instant
from odf_storage.runtime.clock import system_clock

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Time:
    """The node's clock, moved on by the test."""

    def __init__(self, real):
        self.real, self.ahead_s = real, 0

    def __call__(self):
        return Instant(self.real().ns + self.ahead_s * NANOS)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {
        "tenancy": "multi",
        "password_work": 2,
        "device_login_ttl_s": 100,
        "device_code_guesses": 6,
    }
    data = tmp_path_factory.mktemp("device")
    with serving(data, clock=Time(system_clock), **settings) as service:
        node = service.node
        anna = create_account(node.stores.accounts, "anna", os.urandom)
        cost = node.passwords.cost
        now = node.clock()
        set_password(node.stores.accounts, anna, "anna's own", os.urandom, now, cost)
        yield service


@pytest.fixture
def client(node):
    node.node.throttle._windows.clear()
    with node.http() as client:
        yield client


def begin(client):
    answer = client.post("/platform/token/device/authorization", data={"client_id": "kamu"})
    assert answer.status_code == 200
    return answer.json()


def poll(client, code, **other):
    form = {"client_id": "kamu", "device_code": code, "grant_type": GRANT, **other}
    return client.post("/platform/token/device", data=form)


def decide(client, code, decision="approve", login="anna", password="anna's own", **more):
    """By the link with the secret code, which clients of the reference open."""
    form = {"deviceCode": code, "decision": decision, "login": login, "password": password}
    return client.post("/v/login", data={**form, "begun": "yes", **more})


def typed(client, code, **more):
    return client.post("/v/login", data={"userCode": code, **more})


def refusal(answer):
    assert answer.status_code == 400
    return answer.json()["message"]


def test_an_approved_command_line_gets_one_session(node, client):
    begun = begin(client)
    code, short = begun.pop("device_code"), begun.pop("user_code")
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", short)
    assert begun == {
        "verification_uri": f"{node.url}/v/login",
        "verification_uri_complete": None,
        "expires_in": 100,
        "interval": 5,
    }
    assert refusal(poll(client, code)) == "authorization_pending"
    shown = client.get("/v/login", params={"deviceCode": code})
    assert (shown.status_code, code in shown.text) == (200, True)
    assert "let in" not in shown.text
    assert "is logged in" in decide(client, code).text
    granted = poll(client, code)
    assert granted.status_code == 200
    token = granted.json().pop("access_token")
    assert {**granted.json(), "access_token": ""} == {
        "access_token": "",
        "token_type": "Bearer",
        "expires_in": 86_400,
        "refresh_token": None,
        "score": None,
    }
    with node.http(token) as owner:
        assert owner.get("/accounts/me").json()["accountName"] == "anna"
    assert refusal(poll(client, code)) == "invalid_grant"


def test_a_person_types_a_short_code_sees_who_asks_and_decides(node, client):
    begun = begin(client)
    node.node.clock.ahead_s += 7
    form = client.get("/v/login")
    assert 'name="userCode"' in form.text
    question = typed(client, begun["user_code"].lower().replace("-", " "), decision="look")
    assert "<dd>kamu</dd>" in question.text
    assert "127.0.0.1, which is yours, too" in question.text
    assert "7 seconds" in question.text
    assert begun["device_code"] not in form.text + question.text
    sure = {"login": "anna", "password": "anna's own", "decision": "approve"}
    assert "is logged in" in typed(client, begun["user_code"], **sure).text
    assert poll(client, begun["device_code"]).status_code == 200
    assert typed(client, begun["user_code"], **sure).status_code == 404


def test_who_was_sent_the_link_is_asked_whether_they_began_the_login(client):
    code = begin(client)["device_code"]
    assert 'name="begun"' in client.get("/v/login", params={"deviceCode": code}).text
    refused = decide(client, code, begun="")
    assert (refused.status_code, "act in your name" in refused.text) == (400, True)
    assert refusal(poll(client, code)) == "authorization_pending"


def test_an_address_guesses_only_so_many_short_codes(client):
    begun = begin(client)
    codes = ["BBBB-BBBB", "", "x", "é" * 30, "BCDF", "\0"]
    assert {typed(client, code or "-").status_code for code in codes} == {404}
    assert typed(client, begun["user_code"], decision="look").status_code == 429
    assert client.get("/v/login", params={"deviceCode": begun["device_code"]}).status_code == 200


def test_a_client_cannot_call_itself_what_its_page_is_not(client):
    name = "<b>Your bank</b>\u202e" + "x" * 500
    form = {"client_id": name}
    begun = client.post("/platform/token/device/authorization", data=form).json()
    shown = client.get("/v/login", params={"deviceCode": begun["device_code"]}).text
    assert "<b>" not in shown
    assert "\u202e" not in shown
    assert "x" * 100 not in shown


def test_a_wrong_password_lets_nobody_in_and_is_counted(client):
    code = begin(client)["device_code"]
    for _ in range(5):
        answer = decide(client, code, password="wrong")
        assert answer.status_code == 401
        assert "Rejected credentials" in answer.text
    assert decide(client, code).status_code == 429
    assert refusal(poll(client, code)) == "authorization_pending"


def test_a_command_line_that_is_sent_away_is_told(client):
    code = begin(client)["device_code"]
    assert "not let in" in decide(client, code, "deny", login="", password="").text
    assert refusal(poll(client, code)) == "access_denied"
    assert decide(client, code).status_code == 404
    assert refusal(poll(client, code)) == "access_denied"


def test_one_that_asks_too_often_is_slowed_down(node, client):
    code = begin(client)["device_code"]
    assert refusal(poll(client, code)) == "authorization_pending"
    assert refusal(poll(client, code)) == "slow_down"
    node.node.clock.ahead_s += EARLIEST_POLL_S
    assert refusal(poll(client, code)) == "authorization_pending"


def test_a_login_that_nobody_decided_expires(node, client):
    code = begin(client)["device_code"]
    node.node.clock.ahead_s += 100
    assert refusal(poll(client, code)) == "expired_token"
    assert decide(client, code).status_code == 404
    begin(client)
    assert refusal(poll(client, code)) == "invalid_grant"


@pytest.mark.parametrize("code", ["", "unknown", "\0", "é" * 300])
def test_an_unknown_code_is_refused(client, code):
    assert refusal(poll(client, code)) == "invalid_grant"
    if code:
        page = client.get("/v/login", params={"deviceCode": code[:50]})
        assert page.status_code == 404
        assert "The code is wrong, was used already, or has expired" in page.text
    assert decide(client, code).status_code == 404


def test_what_is_no_device_request_is_refused(client):
    code = begin(client)["device_code"]
    assert refusal(poll(client, code, grant_type="password")) == "unsupported_grant_type"
    assert refusal(client.post("/platform/token/device/authorization")) == "invalid_request"
    for body in (b"nonsense", b"\xff=\xff", b"&".join([b"a=b"] * 50)):
        assert client.post("/platform/token/device", content=body).status_code == 400


def test_waiting_logins_are_bounded_in_sum(tmp_path):
    with serving(tmp_path, max_device_logins=2, device_login_ttl_s=100) as service:
        with service.http() as http:
            assert [asked(http).status_code for _ in range(4)] == [200, 200, 429, 429]
            assert asked(http).headers["retry-after"] == "100"
        devices = service.node.stores.devices
        assert devices.count() == 2
        later = Instant(service.node.clock().ns + 101 * NANOS)
        prune(replace(service.node.pruning, clock=lambda: later))
        assert devices.count() == 0


def test_one_address_begins_only_so_many_logins(tmp_path):
    """And guesses of passwords are counted apart."""
    with serving(tmp_path, device_logins_per_address=3, login_window_s=60) as service:
        with service.http() as http:
            assert [asked(http).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
            assert 0 < int(asked(http).headers["retry-after"]) <= 61
            wrong = {"loginMethod": "password", "loginCredentialsJson": '{"login": "x"}'}
            assert http.post("/platform/login", json=wrong).status_code == 401
        assert service.node.stores.devices.count() == 3
        elsewhere = await_device(service.node.devices, "192.0.2.7", "odf-node")
        assert service.node.stores.devices.count() == 4
        assert elsewhere


def asked(http):
    return http.post("/platform/token/device/authorization", data={"client_id": "kamu"})


def test_the_page_repeats_nothing_unescaped_and_runs_nothing(node, client):
    code = begin(client)["device_code"]
    shown = decide(client, code, login='"><script>alert(1)</script>', password="wrong")
    assert "<script" not in shown.text
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert shown.headers["x-frame-options"] == "DENY"
    hostile = client.get("/v/login", params={"deviceCode": '"><script>'})
    assert "<script" not in hostile.text
    assert re.search(r'name="deviceCode" value="[0-9a-f]{64}"', shown.text)


def test_codes_are_kept_as_hashes(node, client):
    code = begin(client)["device_code"]
    assert node.node.stores.devices.find(bytes.fromhex(code)) is None
    assert node.node.stores.devices.find(code.encode()) is None


def test_the_page_tells_command_lines_where_the_api_is(node, client):
    found = client.get("/assets/runtime-config.json").json()
    assert found == {"apiServerHttpUrl": node.url}
