"""Front page, accounts, tokens and administration in a real browser, for all eyes and hands."""

from __future__ import annotations

import os

import pytest
from browsers import EYES, overflow, violations
from service import seeded, serving, ten_rows

from odf_node.service.accounts.accounts import ensure_account, set_password
from odf_protocol.metadata.events import SetInfo
from odf_storage.datasets.node.overviews import bring_up
from odf_storage.stores.ports.values import JobSpec

PASSWORD = "pwd_of_chief"
LONG = "Donaudampfschifffahrtsgesellschaft" * 3


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"tenancy": "multi", "password_work": 2}
    with serving(tmp_path_factory.mktemp("browsed"), **settings) as service:
        its = service.node
        chief = ensure_account(its.stores.accounts, "chief", os.urandom, is_admin=True)
        cost = its.passwords.cost
        set_password(its.stores.accounts, chief, PASSWORD, os.urandom, its.clock(), cost)
        chain = ten_rows()
        chain.add(SetInfo(description=f"<b>{LONG}</b> & more", keywords=(LONG[:80], "rain")))
        entry = service.keep(chain, "chief/" + "long-name-" * 8 + "end")
        for number in range(120):
            service.keep(seeded(), f"anna/set-{number:03}")
        its.stores.jobs.submit(JobSpec(kind="verify", dataset=entry.id, payload={}))
        while bring_up(its.stores):
            pass
        yield service


@pytest.fixture
def chief(node, window):
    node.node.throttle._windows.clear()
    page = window(f"{node.url}/v/sign-in")
    page.get_by_label("Account").fill("chief")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()
    return page


def for_all_eyes(page):
    for width, scheme in EYES:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], (page.url, width, scheme)
        assert overflow(page) <= 0, (page.url, width)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?search=zebra",
        "/?page=2",
        "/?view=cards",
        "/v/login",
        "/?page=99",
        "/v/sign-in",
        "/v/accounts/anna",
        "/docs/manual",
        "/docs/manual/publishing",
        "/docs/manual?q=retract",
    ],
)
def test_pages_for_everybody_are_for_all_eyes(node, window, path):
    page = window(f"{node.url}/")
    page.goto(node.url + path)
    for_all_eyes(page)


@pytest.mark.parametrize(
    "path",
    [
        "/v/accounts/chief",
        "/v/tokens",
        "/v/password",
        "/v/admin/jobs",
        "/v/admin/storage",
        "/v/admin/accounts",
        "/v/admin/accounts/chief",
        "/v/admin/audit",
        "/v/manage/anna/set-001",
        "/v/manage/chief/" + "long-name-" * 8 + "end",
    ],
)
def test_pages_of_accounts_and_admins_are_for_all_eyes(node, chief, path):
    chief.goto(node.url + path)
    for_all_eyes(chief)


@pytest.mark.parametrize("script", [True, False])
def test_a_dataset_is_found_by_keyboard_with_and_without_javascript(node, window, script):
    page = window(f"{node.url}/", script=script)
    page.get_by_role("searchbox").fill("rain")
    page.get_by_role("searchbox").press("Enter")
    page.get_by_text("1 dataset found").wait_for()
    page.goto(f"{node.url}/")
    page.get_by_role("link", name="Next").click()
    page.get_by_role("link", name="anna/set-050").wait_for()


def test_a_token_is_made_copied_and_revoked(node, chief):
    chief.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chief.goto(f"{node.url}/v/tokens")
    chief.get_by_label("What it is for").fill("nightly")
    chief.get_by_role("button", name="Make a token").click()
    chief.get_by_role("button", name="Copy").first.click()
    chief.get_by_role("button", name="Copied").wait_for()
    copied = chief.evaluate("navigator.clipboard.readText()")
    for_all_eyes(chief)
    with node.http(copied) as program:
        assert program.get("/accounts/me").status_code == 200
        chief.goto(f"{node.url}/v/tokens")
        chief.get_by_text("Revoke…").first.click()
        chief.get_by_role("button", name="Revoke nightly").click()
        chief.get_by_role("cell", name="revoked", exact=True).wait_for()
        assert program.get("/accounts/me").status_code == 401


def test_a_job_is_cancelled_after_a_second_look(node, chief):
    entry = node.node.stores.registry.page(limit=1)[0]
    node.node.stores.jobs.submit(JobSpec(kind="compact", dataset=entry.id, payload={}))
    chief.goto(f"{node.url}/v/admin/jobs?kind=compact")
    assert not chief.get_by_role("button", name="Cancel this job").is_visible()
    chief.get_by_text("Cancel…").click()
    chief.get_by_role("button", name="Cancel this job").click()
    chief.locator(".state-cancelled").wait_for()


@pytest.mark.parametrize("path", ["/", "/v/tokens", "/v/admin/jobs", "/v/admin/audit"])
def test_a_page_and_what_it_loads_weigh_less_than_60_kb(node, chief, path):
    sizes = []
    chief.on("response", lambda answer: sizes.append(len(answer.body())))
    chief.goto(node.url + path, wait_until="networkidle")
    assert 0 < sum(sizes) < 60_000
