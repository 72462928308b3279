"""A disabled account: nobody acts as it any more, by no way of signing in, and its data stays."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from click.testing import CliRunner
from refusals import refusing
from service import Service, serving, ten_rows

from odf_node.cli.main import main
from odf_node.service.accounts import login
from odf_node.service.accounts.accounts import create_token, ensure_account, set_password
from odf_node.service.webhooks.delivering import Delivering
from odf_storage.stores.ports.values import Account, DatasetEntry, Role, Visibility
from odf_storage.stores.ports.webhooks import Webhook

CONTRACT = Path(__file__).parents[2] / "openapi" / "openapi.yaml"
METHODS = ("get", "put", "post", "patch", "delete", "head")
FILLED = {"dataset": "anna/own", "account": "anna", "name": "anna"}
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
    still_readable = delivering.access.still_readable
    assert still_readable(hook.dataset, hook.account) is not None
    with (
        node.service.http(node.anna) as http,
        http.stream("GET", "/anna/own/events") as stream,
    ):
        assert stream.status_code == 200
        lines = stream.iter_lines()
        next(lines)
        node.disable()
        deque(lines, maxlen=0)  # comes to an end
    assert still_readable(hook.dataset, hook.account) is None


class Opening:
    """What anna's token got: URLs and keys that open the files of a dataset without it."""

    def __init__(self, service: Service, bearer: str, dataset: str) -> None:
        self._service, self._path = service, f"/{dataset}/data/"
        account, name = dataset.split("/")
        table = f"/delta-sharing/shares/{account}/schemas/default/tables/{name}/query"
        loaded = f"/iceberg/v1/default/namespaces/{account}/tables/{name}"
        with service.http(bearer) as http:
            listed = http.get(f"/{dataset}/files?format=txt&sign=true").text.splitlines()
            shared = [json.loads(line) for line in http.post(table).text.splitlines()]
            config = http.get(loaded).json()["config"]
        files = [line["file"]["url"] for line in shared if "file" in line]
        self.urls = [*filter(None, listed), *files]
        self._path += urlsplit(listed[0]).path.rpartition("/")[2]
        key, secret, token = (
            config[f"s3.{name}"] for name in ("access-key-id", "secret-access-key", "session-token")
        )
        self._credentials = Credentials(key, secret, token)

    def statuses(self) -> set[int]:
        """What the URLs and the keys are answered."""
        asked = AWSRequest("GET", self._service.url + self._path)
        S3SigV4Auth(self._credentials, "s3", "us-east-1").add_auth(asked)
        signed = {"host": urlsplit(self._service.url).netloc, **dict(asked.headers.items())}
        with self._service.http() as http:
            told = {http.get(url).status_code for url in self.urls}
            return told | {http.get(self._path, headers=signed).status_code}


def test_signed_urls_and_s3_keys_of_a_disabled_account_open_nothing(node: Set) -> None:
    bob = ensure_account(node.stores.accounts, "bob", os.urandom)
    node.stores.roles.put(node.entry.id, bob.id, Role.READER)
    annas = Opening(node.service, node.anna, "anna/own")
    bobs = Opening(node.service, node.service.token("bob"), "anna/own")
    assert len(annas.urls) == 2
    assert set(annas.urls).isdisjoint(bobs.urls)
    assert annas.statuses() == bobs.statuses() == {200}
    node.disable()
    assert annas.statuses() == {403, 404}
    assert bobs.statuses() == {200}
    with node.service.http(node.chief) as http:
        assert http.delete("/accounts/anna/disabled").status_code == 204
    assert annas.statuses() == {200}


def test_signed_urls_and_s3_keys_end_with_the_right_of_their_account_to_read(node: Set) -> None:
    bob = ensure_account(node.stores.accounts, "bob", os.urandom)
    node.stores.roles.put(node.entry.id, bob.id, Role.READER)
    bobs = Opening(node.service, node.service.token("bob"), "anna/own")
    assert bobs.statuses() == {200}
    with node.service.http(node.anna) as http:
        assert http.delete("/anna/own/access/bob").status_code < 300
    assert bobs.statuses() == {403, 404}


def test_what_was_signed_for_everybody_ends_when_the_dataset_becomes_private(node: Set) -> None:
    with node.service.http(node.anna) as http:
        http.put("/anna/own/visibility", json={"visibility": "Public"}).raise_for_status()
    with node.service.http() as http:
        url = http.get("/anna/own/files?format=txt&sign=true").text.splitlines()[0]
        assert http.get(url).status_code == 200
    with node.service.http(node.anna) as http:
        http.put("/anna/own/visibility", json={"visibility": "Private"}).raise_for_status()
    with node.service.http() as http:
        assert http.get(url).status_code == 404


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


def routes() -> Iterator[tuple[str, str]]:
    """Every method and address of the contract, of a private dataset of anna where it has one."""
    for path, item in yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))["paths"].items():
        filled = re.sub(r"{(\w+)}", lambda found: FILLED.get(found[1], "f1620" + 64 * "0"), path)
        for method in METHODS:
            if method in item:
                yield method, filled


def answers(node: Set, bearer: str, asked: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
    found = dict[tuple[str, str], int]()
    with node.service.http(bearer) as http:
        for method, path in asked:
            with http.stream(method, path) as answer:
                found[method, path] = answer.status_code
    return found


@pytest.mark.parametrize("how", ["disabled", "deleted"])
def test_on_every_route_the_token_of_who_left_is_that_of_nobody(node: Set, how: str) -> None:
    token, session = node.anna, node.session("anna", PASSWORD)
    with node.service.http(node.chief) as http:
        if how == "disabled":
            assert http.put("/accounts/anna/disabled").status_code == 204
        else:
            assert http.delete("/accounts/anna?datasets=keep").status_code == 200
    asked = list(routes())
    assert len(asked) > 100
    nobody = answers(node, "ka_" + "0" * 58, asked)
    assert answers(node, token, asked) == nobody
    assert answers(node, session, asked) == nobody


def test_an_administrator_who_is_one_no_more_is_answered_as_a_user_on_every_route_of_accounts(
    node: Set,
) -> None:
    """As after a group was taken from somebody: by token and by session, at once."""
    bob = ensure_account(node.stores.accounts, "bob", os.urandom)
    cost, now = node.service.node.passwords.cost, node.service.node.clock()
    set_password(node.stores.accounts, bob, PASSWORD, os.urandom, now, cost)
    mine = (node.service.token("bob"), node.session("bob", PASSWORD))
    theirs = (node.service.token("chief"), node.chief)
    node.stores.accounts.put_account(replace(node.account("chief"), is_admin=False))
    asked = [one for one in routes() if one[1].startswith(("/accounts/anna", "/system/"))]
    assert ("put", "/accounts/anna/quota") in asked
    for own, other in zip(mine, theirs, strict=True):
        assert answers(node, other, asked) == answers(node, own, asked)
    assert node.account().disabled_at is None
