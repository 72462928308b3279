"""A disabled account: nobody acts as it any more, by no way of signing in, and its data stays."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from refusals import refusing
from service import Service, serving, ten_rows

from odf_node.cli.main import main
from odf_node.service.accounts import login
from odf_node.service.accounts.accounts import create_token, ensure_account, set_password
from odf_node.service.webhooks.delivering import Delivering, _still_readable
from odf_storage.stores.ports.values import Account, DatasetEntry, Visibility
from odf_storage.stores.ports.webhooks import Webhook

PASSWORD = "pwd_of_anna"
CHIEF = "pwd_of_chief"
HTML = {"accept": "text/html"}


class Set:
    """A node with an administrator, and anna, who has a private dataset."""

    def __init__(self, service: Service) -> None:
        self.service, self.stores, its = service, service.node.stores, service.node
        for name, password, is_admin in (("chief", CHIEF, True), ("anna", PASSWORD, False)):
            one = ensure_account(self.stores.accounts, name, os.urandom, is_admin=is_admin)
            cost = its.passwords.cost
            set_password(self.stores.accounts, one, password, os.urandom, its.clock(), cost)
        self.entry: DatasetEntry = service.keep(ten_rows(), "anna/own", Visibility.PRIVATE)
        self.anna, self.chief = service.token("anna"), self.session("chief", CHIEF)

    def account(self, name: str = "anna") -> Account:
        found = self.stores.accounts.find_account(name)
        assert found is not None
        return found

    def session(self, name: str, password: str) -> str:
        its, given = self.service.node, json.dumps({"login": name, "password": password})
        return login.log_in(its.passwords, its.sessions, "password", given, "127.0.0.1").token

    def disable(self, name: str = "anna") -> None:
        with self.service.http(self.chief) as http:
            assert http.put(f"/accounts/{name}/disabled").status_code == 204

    def status(self, path: str, bearer: str) -> int:
        with self.service.http(bearer) as http:
            return http.get(path).status_code


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Set]:
    settings: dict[str, Any] = {"tenancy": "multi", "password_work": 2, "events_keep_alive_s": 0.2}
    with serving(tmp_path / "data", **settings) as service:
        yield Set(service)


def test_tokens_and_sessions_of_a_disabled_account_are_refused_and_taken_again_once_enabled(
    node: Set,
) -> None:
    session = node.session("anna", PASSWORD)
    node.disable()
    for bearer in (node.anna, session):
        assert node.status("/accounts/me", bearer) == 401
        assert node.status("/platform/token/validate", bearer) == 401
        assert node.status("/anna/own/tail", bearer) == 404
    with refusing("AccountDisabled", match="anna is disabled"):
        node.session("anna", PASSWORD)
    with refusing("CredentialsRejected"):
        node.session("anna", "another")
    with refusing("AccountDisabled"):
        create_token(node.stores.accounts, node.account(), os.urandom, node.service.node.clock())
    with node.service.http(node.chief) as http:
        assert http.get("/anna/own/tail").status_code == 200
        assert http.delete("/accounts/anna/disabled").status_code == 204
    assert node.status("/anna/own/tail", node.anna) == 200
    assert node.status("/accounts/me", session) == 200


def test_streams_and_webhooks_of_a_disabled_account_end(node: Set) -> None:
    hook = Webhook(
        id="wh_1",
        dataset=node.entry.id,
        account=node.account().id,
        url="https://example.com/hook",
        sealed_secret=b"",
        created_at=node.service.node.clock(),
    )
    delivering = node.service.node.parts[Delivering]
    assert isinstance(delivering, Delivering)
    assert _still_readable(delivering, hook) is not None
    with (
        node.service.http(node.anna) as http,
        http.stream("GET", "/anna/own/events") as stream,
    ):
        assert stream.status_code == 200
        lines = stream.iter_lines()
        next(lines)
        node.disable()
        deque(lines, maxlen=0)  # comes to an end
    assert _still_readable(delivering, hook) is None


def test_a_command_line_that_waits_for_a_disabled_account_gets_no_session(node: Set) -> None:
    devices = node.service.node.devices
    codes = login.await_device(devices, "127.0.0.1", "laptop")
    waiting = login.find_waiting(devices, codes.device)
    assert waiting is not None
    assert login.decide_device(devices, waiting, node.account())
    node.disable()
    with refusing("DeviceGrantRefused", match="access_denied"):
        login.poll_device(devices, codes.device)


def test_only_another_administrator_disables_and_one_who_signed_in_enables(node: Set) -> None:
    token = node.service.token("chief")
    with node.service.http(node.anna) as http:
        assert http.put("/accounts/chief/disabled").status_code == 403
        assert http.delete("/accounts/chief/disabled").status_code == 403
    with node.service.http() as http:
        assert http.put("/accounts/anna/disabled").status_code == 401
    with node.service.http(token) as http:
        assert http.put("/accounts/CHIEF/disabled").json()["type"].endswith("OwnAccount")
        assert http.put("/accounts/nobody/disabled").status_code == 404
        assert http.put("/accounts/anna/disabled").status_code == 204
        assert http.put("/accounts/anna/disabled").status_code == 204
        assert http.delete("/accounts/anna/disabled").status_code == 403
    assert node.account("chief").disabled_at is None
    assert node.account().disabled_at is not None


def test_administrators_disable_and_enable_on_the_page_of_an_account(node: Set) -> None:
    with node.service.http() as http:
        http.headers.update(HTML)
        http.post("/v/sign-in", data={"login": "chief", "password": CHIEF})
        page = "/v/admin/accounts/anna"
        assert "Disable it" in http.get(page).text
        assert http.post(f"{page}/disabled").headers["location"].endswith(page)
        assert "Disabled since" in http.get(page).text
        assert "user, disabled" in http.get("/v/admin/accounts").text
        http.post(f"{page}/disabled", data={"enable": "yes"})
        assert "Disabled since" not in http.get(page).text
        own = http.post("/v/admin/accounts/chief/disabled")
        assert (own.status_code, "nobody disables oneself" in own.text) == (409, True)
        http.post("/v/sign-out")
    node.disable()
    with node.service.http() as http:
        http.headers.update(HTML)
        told = http.post("/v/sign-in", data={"login": "anna", "password": PASSWORD})
        assert "the account anna is disabled" in told.text


def test_commands_disable_and_enable_beside_a_running_node(node: Set, tmp_path: Path) -> None:
    def odf(*words: str) -> Any:
        return CliRunner().invoke(main, ["account", *words, "--data", str(tmp_path / "data")])

    assert odf("disable", "Anna").stdout == "anna is disabled\n"
    assert node.status("/accounts/me", node.anna) == 401
    shown = {one["accountName"]: one for one in json.loads(odf("list", "--json").stdout)}
    assert shown["anna"]["disabledAt"] is not None
    assert shown["chief"]["disabledAt"] is None
    assert json.loads(odf("enable", "anna", "--json").stdout)["disabledAt"] is None
    assert node.status("/accounts/me", node.anna) == 200
    assert odf("disable", "nobody").exit_code == 3
