"""Pages of accounts: datasets by account, one's own tokens, one's own password."""

from __future__ import annotations

import os
import re

import pytest
from service import seeded, serving, ten_rows

from odf_node.service.accounts.accounts import ensure_account, set_password
from odf_storage.stores.ports.values import Visibility

HTML = {"accept": "text/html"}
PASSWORDS = {"anna": "pwd_of_anna", "bert": "pwd_of_bert"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"tenancy": "multi", "password_work": 2}
    with serving(tmp_path_factory.mktemp("accounts"), **settings) as service:
        its = service.node
        for name, password in PASSWORDS.items():
            account = ensure_account(its.stores.accounts, name, os.urandom)
            cost = its.passwords.cost
            set_password(its.stores.accounts, account, password, os.urandom, its.clock(), cost)
        service.keep(ten_rows(), "anna/open")
        service.keep(seeded(), "anna/hidden", Visibility.PRIVATE)
        yield service


@pytest.fixture
def visitor(node):
    node.node.throttle._windows.clear()
    with node.http() as client:
        client.headers.update(HTML)
        yield client


@pytest.fixture
def anna(visitor):
    visitor.post("/v/sign-in", data={"login": "anna", "password": PASSWORDS["anna"]})
    return visitor


FORM = {"label": "nightly", "days": "30", "may_read": "yes", "reach": "node"}


def test_an_account_shows_its_datasets_to_those_who_may_read_them(visitor, node):
    shown = visitor.get("/v/accounts/anna").text
    assert 'href="/anna/open"' in shown
    assert "anna/hidden" not in shown
    assert "/v/tokens" not in shown
    visitor.post("/v/sign-in", data={"token": node.token("anna")})
    own = visitor.get("/v/account", follow_redirects=True)
    assert str(own.url).endswith("/v/accounts/anna")
    assert 'href="/anna/hidden"' in own.text
    assert "/v/tokens" in own.text
    assert "anna/open" not in visitor.get("/v/accounts/anna?search=hidden").text


@pytest.mark.parametrize("name", ["bert", "nobody", "%00", "<script>", "a" * 500, "%F0%9F%A6%84"])
def test_an_account_without_readable_datasets_looks_like_none(visitor, name):
    answer = visitor.get(f"/v/accounts/{name}")
    assert answer.status_code == 404
    assert "no such account, or none with a dataset that you may read" in answer.text
    assert "<script>" not in answer.text.replace("<script src", "")


@pytest.mark.parametrize("path", ["/v/tokens", "/v/password", "/v/account"])
def test_own_pages_ask_strangers_to_sign_in(visitor, path):
    answer = visitor.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/v/sign-in?next=/v/")


def test_a_token_is_made_shown_once_used_and_revoked(anna, node):
    made = anna.post("/v/tokens", data=FORM)
    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    token = re.search(r"ka_[0-9A-Z]+", made.text)[0]
    with node.http(token) as program:
        assert program.get("/accounts/me").json()["accountName"] == "anna"
        assert program.get("/anna/hidden/refs/head").status_code == 200
        listed = anna.get("/v/tokens").text
        assert token not in listed
        assert "nightly" in listed
        number = re.search(r'name="token" value="([0-9a-f]+)"', listed)[1]
        assert anna.post("/v/tokens/revoke", data={"token": number}).status_code == 303
        assert program.get("/accounts/me").status_code == 401
    assert ">revoked" in anna.get("/v/tokens").text


def test_a_token_for_one_dataset_reaches_no_other(anna, node):
    wanted = FORM | {"reach": "dataset", "dataset": "anna/hidden"}
    token = re.search(r"ka_[0-9A-Z]+", anna.post("/v/tokens", data=wanted).text)[0]
    node.keep(seeded(), "anna/other", Visibility.PRIVATE)
    with node.http(token) as program:
        assert program.get("/anna/hidden/refs/head").status_code == 200
        assert program.get("/anna/other/refs/head").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"days": "9999"},
        {"days": None},
        {"may_read": None},
        {"label": "x" * 300},
        {"label": "two\nlines"},
        {"reach": "dataset", "dataset": ""},
        {"reach": "dataset", "dataset": "bert/absent"},
        {"reach": "dataset", "dataset": "../../etc"},
    ],
    ids=str,
)
def test_what_cannot_be_a_token_is_told_in_the_form(anna, change):
    wanted = {name: text for name, text in (FORM | change).items() if text is not None}
    answer = anna.post("/v/tokens", data=wanted)
    assert 400 <= answer.status_code < 500
    assert 'role="alert"' in answer.text
    assert "ka_0" not in answer.text


def test_those_who_signed_in_by_a_token_make_no_other(visitor, node):
    visitor.post("/v/sign-in", data={"token": node.token("anna")})
    assert "a token makes no tokens" in visitor.get("/v/tokens").text
    assert visitor.post("/v/tokens", data=FORM).status_code == 403


def test_nobody_revokes_a_token_of_another(anna, node):
    other = node.token("bert")
    theirs = node.node.stores.accounts.find_account("bert")
    number = node.node.stores.accounts.tokens(theirs.id)[0].id
    assert anna.post("/v/tokens/revoke", data={"token": number}).status_code == 404
    with node.http(other) as program:
        assert program.get("/accounts/me").status_code == 200


@pytest.mark.parametrize(
    "path", ["/v/tokens", "/v/tokens/revoke", "/v/password", "/v/admin/jobs/cancel"]
)
def test_forms_of_another_site_are_refused_and_change_nothing(anna, node, path):
    foreign = {"origin": "https://elsewhere.example"}
    before = anna.get("/v/tokens").text
    answer = anna.post(path, data=FORM, headers=foreign)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert anna.get("/v/tokens").text == before


def test_a_password_is_changed_by_those_who_know_it(visitor):
    visitor.post("/v/sign-in", data={"login": "bert", "password": PASSWORDS["bert"]})
    wrong = visitor.post("/v/password", data={"password": "guess", "new": "another_one_1"})
    assert wrong.status_code == 401
    assert 'role="alert"' in wrong.text
    short = visitor.post("/v/password", data={"password": PASSWORDS["bert"], "new": "x"})
    assert short.status_code == 400
    changed = visitor.post(
        "/v/password", data={"password": PASSWORDS["bert"], "new": "another_one_1"}
    )
    assert changed.headers["location"] == "/v/account"
    assert visitor.get("/v/tokens").status_code == 200
    visitor.post("/v/sign-out")
    again = {"login": "bert", "password": "another_one_1"}
    assert visitor.post("/v/sign-in", data=again).status_code == 303


def test_changes_by_pages_are_in_the_audit_log(anna, node):
    anna.post("/v/tokens", data=FORM | {"label": "audited"})
    node.node.audit_writer.close()
    newest = node.node.stores.audit.page(limit=1)[0]
    assert (newest.action, newest.actor, newest.outcome) == ("POST /v/tokens", "anna", "200")
