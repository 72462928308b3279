"""Login by an identity provider, with one that says what it should not."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from odd_provider import CLIENT, SECRET, OddProvider, odd_provider, rsa_key
from refusals import refusing
from service import Service, serving, ten_rows

from odf_node.service.accounts.accounts import ensure_account
from odf_node.service.oidc import provider as provider_code
from odf_node.service.oidc.provider import OidcSettings, Provider
from odf_protocol.errors import BadInput
from odf_storage.runtime.environment import read_settings
from odf_storage.stores.ports.values import Account, Role, Visibility

ROLES = {"/readers": {"anna/own": "Reader"}, "/curators": {"anna/own": "Editor"}}
SETTINGS = {
    "CLIENT_ID": CLIENT,
    "CLIENT_SECRET": SECRET,
    "NAME": "the institute",
    "ADMIN_GROUPS": json.dumps(["/admins"]),
    "ROLES": json.dumps(ROLES),
    "ANSWER_S": "2",
}


@pytest.fixture(scope="module")
def its() -> Iterator[OddProvider]:
    with odd_provider() as made:
        yield made


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, its: OddProvider) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_code, "AGAIN_S", 0.0)
        patch.setattr(provider_code, "DESCRIPTION_S", 0.0)
        patch.setenv("ODF_OIDC_ISSUER", its.url)
        for name, text in SETTINGS.items():
            patch.setenv(f"ODF_OIDC_{name}", text)
        data = tmp_path_factory.mktemp("oidc")
        with serving(data, tenancy="multi", password_work=2) as service:
            ensure_account(service.node.stores.accounts, "anna", os.urandom)
            service.keep(ten_rows(), "anna/own", Visibility.PRIVATE)
            yield service


@pytest.fixture
def provider(its: OddProvider) -> OddProvider:
    its.reset()
    return its


@pytest.fixture
def browser(node: Service) -> Iterator[httpx.Client]:
    with node.http() as client:
        client.headers["accept"] = "text/html"
        yield client


def begin(browser: httpx.Client, target: str = "/") -> str:
    answer = browser.get("/v/oidc/begin", params={"next": target})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def log_in(browser: httpx.Client, provider: OddProvider, **claims: Any) -> httpx.Response:
    provider.claims = {"sub": "ann", **claims}
    brought = provider.log_in(begin(browser))
    return browser.get("/v/oidc/callback", params=brought)


def signed_in(browser: httpx.Client) -> str:
    """Return the name of the account of the browser; empty without one."""
    place = browser.get("/v/account").headers["location"]
    return place.rpartition("/")[2] if "/v/accounts/" in place else ""


def account_of(node: Service, provider: OddProvider, subject: str) -> Account:
    found = node.node.stores.provider_accounts.find(provider.url, subject)
    assert found is not None
    return node.node.stores.accounts.account(found)


def says(answer: httpx.Response) -> str:
    return re.sub(r"<[^>]*>", " ", answer.text)


def test_whoever_logs_in_goes_on_where_they_were(browser, provider):
    provider.claims = {"sub": "goer", "preferred_username": "Goer.Smith@example.org"}
    brought = provider.log_in(begin(browser, "/v/account"))
    answer = browser.get("/v/oidc/callback", params=brought)
    assert answer.status_code == 200
    assert 'content="0; url=/v/account"' in answer.text
    assert signed_in(browser) == "goer-smith"
    strict = [one for one in answer.headers.get_list("set-cookie") if "odf_session" in one]
    assert "HttpOnly" in strict[0]
    assert "SameSite=strict" in strict[0]


def test_a_login_goes_on_to_no_other_site(browser, provider):
    brought = provider.log_in(begin(browser, "//evil.example/"))
    assert 'url=/"' in browser.get("/v/oidc/callback", params=brought).text


def test_an_account_is_that_of_issuer_and_subject_whatever_the_name_says(node, browser, provider):
    log_in(browser, provider, sub="p1", preferred_username="anna", email="anna@example.org")
    first = account_of(node, provider, "p1")
    assert first.name.startswith("anna-")  # the name was taken, and is no claim to the account
    log_in(browser, provider, sub="p1", preferred_username="berta")
    assert account_of(node, provider, "p1") == first
    log_in(browser, provider, sub="p2", preferred_username="anna")
    assert account_of(node, provider, "p2").id != first.id


@pytest.mark.parametrize("name", [None, 7, "", "v", "!!!", "ü" * 300, "a..b", "../x", "Ann Smith"])
def test_any_name_gives_an_account_with_a_name_of_ours(node, browser, provider, name):
    subject = f"named {name!r}"[:200]
    assert log_in(browser, provider, sub=subject, preferred_username=name).status_code == 200
    assert re.fullmatch("[a-z0-9-]+", account_of(node, provider, subject).name)


def role(node: Service, account: Account) -> Role | None:
    found = node.node.stores.registry.page(limit=10)
    return node.node.stores.roles.of_dataset(found[0].id).get(account.id)


def test_groups_give_rights_and_take_them(node, browser, provider):
    log_in(browser, provider, sub="g", groups=["/admins", "/readers", "/curators", "x"])
    account = account_of(node, provider, "g")
    assert account.is_admin
    assert role(node, account) is Role.EDITOR
    log_in(browser, provider, sub="g", groups="/readers")  # a text is a list of one
    account = account_of(node, provider, "g")
    assert not account.is_admin
    assert role(node, account) is Role.READER
    log_in(browser, provider, sub="g", groups=["readers", "/readers/north"])
    assert role(node, account) is None


@pytest.mark.parametrize("groups", [None, 7, [7], {"a": 1}, [["/admins"]]])
def test_groups_that_are_not_said_change_no_rights(node, browser, provider, groups):
    log_in(browser, provider, sub="h", groups=["/admins"])
    log_in(browser, provider, sub="h", groups=groups)
    assert account_of(node, provider, "h").is_admin
    log_in(browser, provider, sub="i", groups=groups)
    assert not account_of(node, provider, "i").is_admin


@pytest.mark.parametrize("groups", ["/admins,/readers", "/admins /readers", '["/admins"]', ""])
def test_a_text_is_one_group_whatever_it_has_between_its_words(node, browser, provider, groups):
    log_in(browser, provider, sub="t", groups=["/admins", "/readers"])
    log_in(browser, provider, sub="t", groups=groups)  # names of directories have commas
    account = account_of(node, provider, "t")
    assert not account.is_admin
    assert role(node, account) is None


def test_groups_may_lie_in_another_claim(tmp_path, provider, monkeypatch):
    monkeypatch.setenv("ODF_OIDC_ISSUER", provider.url)
    for name, text in {**SETTINGS, "GROUPS_CLAIM": "realm_access.roles"}.items():
        monkeypatch.setenv(f"ODF_OIDC_{name}", text)
    with serving(tmp_path) as service, service.http() as http:

        def is_admin(**claims):
            log_in(http, provider, sub="n", **claims)
            return account_of(service, provider, "n").is_admin

        assert not is_admin(groups=["/admins"])
        assert is_admin(realm_access={"roles": ["/admins"]})
        for wrong in ({}, {"roles": None}, {"roles": {"a": "/x"}}, ["roles"], "roles", None):
            assert is_admin(realm_access=wrong)  # nothing is said of groups
        assert not is_admin(realm_access={"roles": []})
        assert is_admin(**{"realm_access.roles": "/admins"})


def test_groups_may_be_said_of_the_person_alone(node, browser, provider):
    provider.userinfo = {"sub": "u", "groups": ["/admins"], "preferred_username": "ursula"}
    log_in(browser, provider, sub="u")
    assert account_of(node, provider, "u").is_admin
    assert account_of(node, provider, "u").name == "ursula"


def test_what_is_said_of_another_person_is_refused(browser, provider):
    provider.userinfo = {"sub": "somebody else", "groups": ["/admins"]}
    answer = log_in(browser, provider)
    assert answer.status_code == 401
    assert "another person" in says(answer)


def without(name: str) -> Any:
    return lambda told: told.pop(name, None)


def with_(**more: Any) -> Any:
    return lambda told: told.update(more)


OTHER = rsa_key("one")
NOW = int(time.time())
WRONG = {
    "another issuer": {"change_claims": with_(iss="https://evil.example")},
    "a slash more": {"change_claims": lambda told: told.update(iss=told["iss"] + "/")},
    "another audience": {"change_claims": with_(aud="other")},
    "audiences without us": {"change_claims": with_(aud=["other", "third"])},
    "no audience": {"change_claims": without("aud")},
    "another party": {"change_claims": with_(azp="other")},
    "over": {"change_claims": with_(exp=NOW - 60)},
    "no end": {"change_claims": without("exp")},
    "an end of text": {"change_claims": with_(exp="never")},
    "begins later": {"change_claims": with_(iat=NOW + 10**6)},
    "another login": {"change_claims": with_(nonce="another")},
    "no nonce": {"change_claims": without("nonce")},
    "no subject": {"change_claims": without("sub")},
    "a number": {"change_claims": with_(sub=7)},
    "a long subject": {"change_claims": with_(sub="x" * 256)},
    "another access token": {"change_claims": with_(at_hash="AAAAAAAAAAAAAAAAAAAAAA")},
    "no id_token": {"change_answer": without("id_token")},
    "no access token": {"change_answer": without("access_token")},
    "id_token of no text": {"change_answer": with_(id_token=7)},
    "no token": {"change_answer": with_(id_token="a.b.c")},
    "an empty token": {"change_answer": with_(id_token="")},
    "a long token": {"change_answer": with_(id_token="x" * 100_000)},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_login_that_says_something_wrong_is_refused(browser, provider, case):
    provider.__dict__.update(WRONG[case])
    answer = log_in(browser, provider)
    assert answer.status_code == 401, says(answer)
    assert "the login was not taken" in says(answer)
    assert "odf_session" not in browser.cookies


@pytest.mark.parametrize("how", ["secret", "none", "other key", "tampered"])
def test_a_login_that_the_provider_did_not_sign_is_refused(browser, provider, how):
    def tampered(claims: dict[str, Any]) -> str:
        head, _, end = provider.token(claims).split(".")
        return ".".join((head, provider.token({**claims, "sub": "x"}).split(".")[1], end))

    def unsigned(claims: dict[str, Any]) -> str:
        return f"eyJhbGciOiJub25lIn0.{provider.token(claims).split('.')[1]}."

    def other(claims: dict[str, Any]) -> str:
        return OddProvider(key=OTHER).token(claims)

    ways = {"secret": provider.by_secret, "none": unsigned, "other key": other}
    provider.sign = {**ways, "tampered": tampered}[how]
    assert log_in(browser, provider).status_code == 401
    assert "odf_session" not in browser.cookies


def test_a_key_that_is_changed_counts_at_once_and_the_old_one_no_more(browser, provider):
    assert log_in(browser, provider).status_code == 200
    old, provider.key = provider.key, rsa_key("two")
    assert log_in(browser, provider).status_code == 200
    provider.key, same = rsa_key("two"), provider.key  # another key of the same name
    assert log_in(browser, provider).status_code == 200
    browser.cookies.clear()
    for withdrawn in (old, same):
        provider.sign = OddProvider(key=withdrawn).token
        assert log_in(browser, provider).status_code == 401


def test_keys_are_asked_for_again_after_a_while_and_not_for_each_bad_token(provider, monkeypatch):
    monkeypatch.setattr(provider_code, "AGAIN_S", 5.0)
    monkeypatch.setattr(provider_code, "DESCRIPTION_S", 600.0)
    now = [0.0]
    asking = Provider(OidcSettings(issuer=provider.url), now=lambda: now[0])
    asking.keys()
    for _ in range(20):
        asking.keys(newer=True)
    assert provider.asked.count("/keys") == 1
    now[0] += 6
    asking.keys()
    asking.keys(newer=True)
    assert provider.asked.count("/keys") == 2
    now[0] += 301
    asking.keys()
    assert provider.asked.count("/keys") == 3


def test_two_tabs_log_in_beside_each_other(browser, provider):
    first, second = begin(browser, "/first"), begin(browser, "/second")
    brought = [provider.log_in(one) for one in (first, second)]
    for one, target in zip(reversed(brought), ("/second", "/first"), strict=True):
        answer = browser.get("/v/oidc/callback", params=one)
        assert f"url={target}" in answer.text
    again = browser.get("/v/oidc/callback", params=brought[0])
    assert again.status_code == 400


def test_a_login_that_another_browser_began_is_refused(node, browser, provider):
    brought = provider.log_in(begin(browser))
    with node.http() as other:
        answer = other.get("/v/oidc/callback", params=brought)
    assert answer.status_code == 400
    assert "was not begun in this browser" in says(answer)
    assert "odf_session" not in answer.headers.get("set-cookie", "")
    assert "/token" not in provider.asked


@pytest.mark.parametrize("cookie", ["", "x", "a.b", "a." + "A" * 80, "é", ".", "x" * 3000])
def test_a_cookie_that_is_not_ours_is_no_login(browser, provider, cookie):
    brought = provider.log_in(begin(browser))
    name = next(name for name in browser.cookies if name.startswith("odf_login_"))
    browser.cookies.clear()
    sent = f"{name}={cookie}".encode("latin-1")
    answer = browser.get("/v/oidc/callback", params=brought, headers=[(b"cookie", sent)])
    assert answer.status_code == 400


def test_a_cookie_of_another_node_is_no_login(tmp_path, browser, provider, monkeypatch):
    monkeypatch.setenv("ODF_OIDC_ISSUER", provider.url)
    brought = provider.log_in(begin(browser))
    with serving(tmp_path) as other, other.http() as http:
        http.cookies.update(browser.cookies)
        assert http.get("/v/oidc/callback", params=brought).status_code == 400


def test_an_answer_of_another_issuer_is_refused(browser, provider):
    brought = provider.log_in(begin(browser))
    answer = browser.get("/v/oidc/callback", params={**brought, "iss": "https://evil.example"})
    assert answer.status_code == 401
    provider.described = {"authorization_response_iss_parameter_supported": True}
    assert browser.get("/v/oidc/callback", params=brought).status_code == 401
    right = {**provider.log_in(begin(browser)), "iss": provider.url}
    assert browser.get("/v/oidc/callback", params=right).status_code == 200


def test_words_of_strangers_are_not_shown_as_ours(browser, provider):
    brought = {**provider.log_in(begin(browser)), "error_description": "phone +1"}
    del brought["code"]
    for error in ("access_denied", "<b>phone</b>"):
        answer = browser.get("/v/oidc/callback", params={**brought, "error": error})
        assert answer.status_code == 401
        assert "phone" not in answer.text
        assert ("access_denied" in answer.text) is (error == "access_denied")
    provider.codes.clear()
    answer = browser.get("/v/oidc/callback", params={**brought, "code": "no such"})
    assert answer.status_code == 502
    assert "invalid_grant" in answer.text
    assert "words" not in answer.text


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
def test_a_provider_that_describes_itself_wrongly_is_used_for_nothing(browser, provider, said):
    provider.described = said
    answer = browser.get("/v/oidc/begin")
    assert answer.status_code == 502
    assert "the institute" in says(answer)


def test_a_provider_that_is_slow_holds_nobody_else_up(node, browser, provider):
    provider.waits = threading.Event()
    ended: list[int] = []

    def one() -> None:
        with node.http() as http:
            ended.append(http.get("/v/oidc/begin").status_code)

    waiting = [threading.Thread(target=one) for _ in range(60)]
    for thread in waiting:
        thread.start()
    try:
        assert browser.get("/v/sign-in").status_code == 200
        assert browser.get("/").status_code == 200
        provider_code_still_waits = len(ended) < len(waiting)
    finally:
        provider.waits.set()
        for thread in waiting:
            thread.join(120)
    assert provider_code_still_waits
    assert set(ended) <= {303, 502}


def test_a_provider_that_does_not_answer_is_given_up_in_time(provider):
    provider.waits = threading.Event()
    asking = Provider(OidcSettings(issuer=provider.url, answer_s=0.2))
    with refusing("ProviderUnusable", match="does not answer"):
        asking.keys()
    provider.waits.set()


def test_a_provider_that_is_away_is_told_and_passwords_still_work(tmp_path, monkeypatch):
    with odd_provider() as gone:
        monkeypatch.setenv("ODF_OIDC_ISSUER", gone.url)
    with serving(tmp_path) as service, service.http() as http:
        answer = http.get("/v/oidc/begin")
        assert answer.status_code == 502
        assert "sign in by a password or access token" in says(answer)
        assert http.get("/v/sign-in").status_code == 200


def log_out_there(browser: httpx.Client, token: str) -> httpx.Response:
    return browser.post("/v/oidc/logout", data={"logout_token": token})


@pytest.mark.parametrize("by", [("sub",), ("sid",), ("sub", "sid")])
def test_a_logout_at_the_provider_ends_the_sessions_here(browser, provider, by):
    its = {"sub": f"leaver {by}", "sid": f"session {by}"}
    log_in(browser, provider, **its)
    assert signed_in(browser)
    named = {name: its[name] for name in by}
    assert log_out_there(browser, provider.logout_token(**named)).status_code == 200
    assert not signed_in(browser)


LOGOUTS: dict[str, dict[str, Any]] = {
    "of another issuer": {"iss": "https://evil.example"},
    "for another": {"aud": "other"},
    "without event": {"events": None},
    "with another event": {"events": {"http://other.example": {}}},
    "with a nonce": {"nonce": "x"},
    "of an hour ago": {"iat": NOW - 3600},
    "without number": {"jti": None},
    "of nobody": {"sub": None},
    "over": {"exp": NOW - 300},
}


@pytest.mark.parametrize("case", LOGOUTS)
def test_a_logout_that_says_something_wrong_ends_nothing(browser, provider, case):
    log_in(browser, provider, sub="stayer")
    token = provider.logout_token(**{"sub": "stayer", **LOGOUTS[case]})
    answer = log_out_there(browser, token)
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert signed_in(browser)


def test_a_logout_counts_once_and_an_id_token_is_none(browser, provider):
    token = provider.logout_token(sub="nobody here")
    assert log_out_there(browser, token).status_code == 200
    assert log_out_there(browser, token).status_code == 400
    log_in(browser, provider, sub="stayer")
    assert log_out_there(browser, browser.cookies["odf_id_token"]).status_code == 400
    assert log_out_there(browser, "").status_code == 400


def test_who_signs_out_here_is_shown_the_way_out_there(browser, provider):
    log_in(browser, provider)
    told = browser.post("/v/sign-out")
    assert told.status_code == 200
    found = re.search(r'href="(http[^"]*/leave[^"]*)"', told.text)
    assert found is not None
    query = parse_qs(urlsplit(found[1].replace("&amp;", "&")).query)
    assert query["id_token_hint"]
    assert query["client_id"] == [CLIENT]
    assert not {"odf_session", "odf_id_token"} & set(browser.cookies)
    assert browser.post("/v/sign-out").status_code == 303


def test_a_disabled_person_is_refused(node, browser, provider):
    log_in(browser, provider, sub="barred")
    account = account_of(node, provider, "barred")
    node.node.stores.accounts.set_disabled(account.id, node.node.clock())
    answer = log_in(browser, provider, sub="barred")
    assert answer.status_code == 403
    assert "disabled" in says(answer)


def test_only_members_log_in_where_groups_are_demanded(tmp_path, provider, monkeypatch):
    monkeypatch.setenv("ODF_OIDC_ISSUER", provider.url)
    monkeypatch.setenv("ODF_OIDC_LOGIN_GROUPS", '["/staff"]')
    for name, text in SETTINGS.items():
        monkeypatch.setenv(f"ODF_OIDC_{name}", text)
    with serving(tmp_path) as service, service.http() as http:
        for groups in (None, [], ["staff"]):
            answer = log_in(http, provider, groups=groups)
            assert answer.status_code == 403, groups
            assert "no group that may log in" in says(answer)
        assert service.node.stores.provider_accounts.find(provider.url, "ann") is None
        assert log_in(http, provider, groups=["/staff"]).status_code == 200


def test_nobody_gets_an_account_where_none_are_made(tmp_path, provider, monkeypatch):
    monkeypatch.setenv("ODF_OIDC_ISSUER", provider.url)
    monkeypatch.setenv("ODF_OIDC_MAKES_ACCOUNTS", "false")
    for name, text in SETTINGS.items():
        monkeypatch.setenv(f"ODF_OIDC_{name}", text)
    with serving(tmp_path) as service, service.http() as http:
        answer = log_in(http, provider)
        assert answer.status_code == 403
        assert "odf-node account link NAME --subject ann" in says(answer)
        owner = service.node.stores.accounts.find_account("kamu")
        service.node.stores.provider_accounts.link(provider.url, "ann", owner.id)
        assert "Signed in as kamu" in says(log_in(http, provider))


def test_a_command_line_is_let_in_by_whom_the_provider_let_in(browser, provider):
    device = {"client_id": "kamu"}
    begun = browser.post("/platform/token/device/authorization", data=device).json()
    page = browser.get("/v/login").text
    assert "/v/oidc/begin?next=/v/login" in page
    asked = {"userCode": begun["user_code"], "decision": "approve"}
    assert browser.post("/v/login", data=asked).status_code == 401  # nobody is signed in
    log_in(browser, provider, preferred_username="ann")
    question = browser.post("/v/login", data={"userCode": begun["user_code"]})
    assert "as whom you are signed in here" in says(question)
    foreign = browser.post("/v/login", data=asked, headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    by_link = {"deviceCode": begun["device_code"], "decision": "approve"}
    assert browser.post("/v/login", data=by_link).status_code == 400  # they did not say they began
    assert browser.post("/v/login", data=asked).status_code == 200
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    form = {**device, "device_code": begun["device_code"], "grant_type": grant}
    token = browser.post("/platform/token/device", data=form).json()["access_token"]
    told = browser.get("/accounts/me", headers={"authorization": f"Bearer {token}"})
    assert told.status_code == 200


def test_a_browser_with_an_access_token_lets_no_command_line_in(node, browser):
    begun = browser.post("/platform/token/device/authorization", data={"client_id": "kamu"}).json()
    browser.cookies.set("odf_session", node.token("anna"))
    asked = {"userCode": begun["user_code"], "decision": "approve"}
    assert browser.post("/v/login", data=asked).status_code == 401


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ISSUER", "http://provider.example"),
        ("ISSUER", "provider.example"),
        ("SCOPES", '["profile"]'),
        ("ROLES", '{"/x": {"anna/own": "Owner"}}'),
        ("ANSWER_S", "0"),
        ("ISSUERS", "https://provider.example"),
    ],
)
def test_settings_that_are_wrong_end_the_start(name, text):
    with pytest.raises(BadInput):
        read_settings(OidcSettings, {f"ODF_OIDC_{name}": text}, {})


def test_without_a_provider_there_is_nothing_of_it(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("ODF_OIDC_ISSUER", raising=False)
    with serving(tmp_path) as service, service.http() as http:
        assert "/v/oidc" not in http.get("/v/sign-in", headers={"accept": "text/html"}).text
        assert http.get("/v/oidc/begin").status_code == 404
