"""Pages for administrators: who sees them, what they show, what their forms do."""

from __future__ import annotations

import os
import re
from datetime import timedelta

import pytest
from service import serving, ten_rows

from odf_node.service.accounts.accounts import create_token, ensure_account, set_password
from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.node.overviews import bring_up
from odf_storage.stores.ports.damages import Damage
from odf_storage.stores.ports.values import (
    Failed,
    JobSpec,
    JobStatus,
    ObjectKey,
    ObjectKind,
    Reach,
    Scope,
    Succeeded,
)

HTML = {"accept": "text/html"}
PAGES = ("/v/admin/jobs", "/v/admin/storage", "/v/admin/accounts", "/v/admin/audit")
PASSWORD = "pwd_of_chief"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"tenancy": "multi", "password_work": 2}
    with serving(tmp_path_factory.mktemp("admin"), **settings) as service:
        its = service.node
        chief = ensure_account(its.stores.accounts, "chief", os.urandom, is_admin=True)
        cost = its.passwords.cost
        set_password(its.stores.accounts, chief, PASSWORD, os.urandom, its.clock(), cost)
        service.keep(ten_rows(), "anna/open")
        while bring_up(its.stores):
            pass
        yield service


@pytest.fixture
def visitor(node):
    node.node.throttle._windows.clear()
    with node.http() as client:
        client.headers.update(HTML)
        yield client


@pytest.fixture
def chief(visitor):
    visitor.post("/v/sign-in", data={"login": "chief", "password": PASSWORD})
    return visitor


def submitted(node, kind="verify", *, dataset=True):
    entry = node.node.stores.registry.page()[0]
    spec = JobSpec(kind=kind, dataset=entry.id if dataset else None, payload={})
    return node.node.stores.jobs.submit(spec)


@pytest.mark.parametrize("path", PAGES)
def test_administrators_alone_see_the_pages(visitor, node, path):
    assert visitor.get(path).headers["location"] == f"/v/sign-in?next={path}"
    visitor.post("/v/sign-in", data={"token": node.token("anna")})
    refused = visitor.get(path)
    assert refused.status_code == 403
    assert "only administrators" in refused.text
    assert "/v/admin" not in refused.text.replace(path, "")


@pytest.mark.parametrize("limits", [{"scopes": [Scope.READ]}, {"reach": Reach.ACCOUNT}])
def test_a_lesser_token_of_an_administrator_administers_nothing(visitor, node, limits):
    accounts = node.node.stores.accounts
    owner = accounts.find_account("chief")
    token = create_token(accounts, owner, os.urandom, node.node.clock(), **limits)
    visitor.post("/v/sign-in", data={"token": str(token)})
    for path in PAGES:
        assert visitor.get(path).status_code == 403
    job = submitted(node)
    assert visitor.post("/v/admin/jobs/cancel", data={"job": job}).status_code == 403
    assert node.node.stores.jobs.get(job).status is JobStatus.WAITING


@pytest.mark.parametrize("path", PAGES)
def test_administrators_see_them_and_find_them_from_the_front_page(chief, path):
    assert "/v/admin/jobs" in chief.get("/").text
    answer = chief.get(path)
    assert answer.status_code == 200
    assert 'aria-current="page"' in answer.text
    assert len(answer.content) < 60_000


def test_the_page_of_jobs_lists_datasets_whose_last_polls_failed(chief, node):
    queue = node.node.stores.jobs
    assert "Polls that fail" not in chief.get("/v/admin/jobs").text

    def polled(outcome):
        submitted(node, "poll")
        claimed = queue.claim("w", ["poll"], lease=timedelta(minutes=1))
        queue.finish(claimed.id, "w", outcome)

    for reason in ("old", "no <i>answer</i>"):
        polled(Failed("SourceFailed", reason))
    table = chief.get("/v/admin/jobs?status=waiting").text.split("<h2>All jobs</h2>")[0]
    assert "anna/open</a></td><td>2</td>" in table
    assert "no &lt;i&gt;answer&lt;/i&gt;" in table
    polled(Succeeded({}))
    assert "Polls that fail" not in chief.get("/v/admin/jobs").text


def test_jobs_are_filtered_tell_why_they_failed_and_are_cancelled(chief, node):
    queue = node.node.stores.jobs
    failing = submitted(node, "compact")
    claimed = queue.claim("w", ["compact"], lease=timedelta(minutes=1))
    reason = "the <b>disk</b> is full"
    queue.finish(claimed.id, "w", Failed("StorageFull", reason))
    waiting = submitted(node, "poll")
    hidden = submitted(node, "sql", dataset=False)
    failed = chief.get("/v/admin/jobs?status=failed").text
    assert "the &lt;b&gt;disk&lt;/b&gt; is full" in failed
    assert failing in failed
    assert waiting not in failed
    assert "anna/open" in failed
    assert chief.post("/v/admin/jobs/cancel", data={"job": waiting}).status_code == 303
    assert queue.get(waiting).status is JobStatus.CANCELLED
    assert waiting in chief.get("/v/admin/jobs?status=cancelled&kind=poll").text
    assert f'value="{hidden}"' not in chief.get("/v/admin/jobs").text
    assert chief.post("/v/admin/jobs/cancel", data={"job": "absent"}).status_code == 404
    queue.cancel(hidden)


def test_jobs_are_on_pages(chief, node):
    for _ in range(51):
        submitted(node, "refresh")
    first = chief.get("/v/admin/jobs?kind=refresh").text
    link = re.search(r'<a href="([^"]+)" rel="next"', first)[1].replace("&amp;", "&")
    second = chief.get("/v/admin/jobs" + link).text
    assert 'rel="next"' not in second
    assert second.count('class="mark state-waiting"') == 1


@pytest.mark.parametrize(
    "query", ["jobs?status=odd", "audit?since=x", "audit?before=x", "audit?dataset=x"]
)
def test_what_cannot_be_asked_is_told_above_the_form(chief, query):
    answer = chief.get(f"/v/admin/{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


def test_storage_shows_sizes_and_damages(chief, node):
    entry = node.node.stores.registry.page()[0]
    block = node.node.stores.refs.head(entry.id)
    now = node.node.clock()
    key = ObjectKey(entry.id, ObjectKind.DATA, block)
    later = Instant(now.ns + 3600 * NANOS)
    damage = Damage(key=key, found_at=now, reason="missing", next_at=later, hopeless="no copy")
    node.node.stores.damages.note(damage)
    shown = chief.get("/v/admin/storage").text
    assert "missing" in shown
    assert str(block) in shown
    assert "anna/open" in shown
    assert "odf-node fsck" in shown


def test_accounts_are_made_and_their_passwords_set(chief, node):
    made = chief.post("/v/admin/accounts", data={"name": "carla", "password": "pwd_of_carla"})
    assert made.headers["location"] == "/v/admin/accounts/carla"
    assert "carla" in chief.get("/v/admin/accounts").text
    again = chief.post("/v/admin/accounts", data={"name": "carla"})
    assert again.status_code == 409
    assert 'role="alert"' in again.text
    for bad in ({"name": "a/b"}, {"name": ""}, {"name": "docs"}, {"name": "dora", "password": "x"}):
        assert chief.post("/v/admin/accounts", data=bad).status_code == 400
    assert node.node.stores.accounts.find_account("dora") is None
    new = {"password": "another_of_carla"}
    assert chief.post("/v/admin/accounts/carla/password", data=new).status_code == 303
    assert chief.post("/v/admin/accounts/carla/password", data={"password": "x"}).status_code == 400
    assert chief.get("/v/admin/accounts/absent").status_code == 404
    with node.http() as carla:
        given = {"login": "carla", "password": "another_of_carla"}
        assert carla.post("/v/sign-in", data=given).status_code == 303


def test_administrators_revoke_tokens_of_others(chief, node):
    token = node.token("anna")
    shown = chief.get("/v/admin/accounts/anna").text
    accounts = node.node.stores.accounts
    newest = accounts.tokens(accounts.find_account("anna").id)[-1].id
    assert token not in shown
    numbers = re.findall(r'name="token" value="([0-9a-f]+)"', shown)
    assert newest in numbers
    for number in numbers:
        revoked = chief.post("/v/admin/accounts/anna/revoke", data={"token": number})
        assert revoked.status_code == 303
    with node.http(token) as program:
        assert program.get("/accounts/me").status_code == 401
    wrong = chief.post("/v/admin/accounts/chief/revoke", data={"token": newest})
    assert wrong.status_code == 404


def test_a_token_of_an_administrator_makes_neither_accounts_nor_passwords(visitor, node):
    visitor.post("/v/sign-in", data={"token": node.token("chief")})
    assert "A token makes no accounts" in visitor.get("/v/admin/accounts").text
    assert visitor.post("/v/admin/accounts", data={"name": "eva"}).status_code == 403
    new = {"password": "pwd_of_mallory"}
    assert visitor.post("/v/admin/accounts/chief/password", data=new).status_code == 403
    assert node.node.stores.accounts.find_account("eva") is None


def test_the_audit_log_is_filtered_and_shows_what_strangers_sent_as_text(chief, node):
    with node.http(node.token("anna")) as program:
        program.delete("/anna/<script>alert(1)<script>")
        program.delete("/anna/none")
    shown = chief.get("/v/admin/audit?actor=chief").text
    assert "<script>alert" not in shown
    assert "DELETE" not in shown
    newest = chief.get("/v/admin/audit?action=POST+/v/sign-in").text
    assert "/v/sign-in" in newest
