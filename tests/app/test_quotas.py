"""Quotas at the doors of a node: uploads, pushes, posts; and what people see and set of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from raw_peer import bundled, files_of, head_of, named, talking
from refusals import refusing
from service import Service, seeded, serving, ten_rows
from upkeep_parts import odf

from odf_node.service.accounts import login
from odf_node.service.accounts.accounts import ensure_account, set_password
from odf_node.service.accounts.quotas import parse_quota
from odf_node.service.ingest.posts import INLINE_BYTES
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.stores.index.sql_sizes import EACH, NODE
from odf_storage.stores.ports.values import Account

PASSWORD = "a long password"


class Place:
    """A node with an administrator, and anna, who has a dataset."""

    def __init__(self, service: Service) -> None:
        self.service, self.stores, its = service, service.node.stores, service.node
        for name, is_admin in (("chief", True), ("anna", False), ("bob", False)):
            one = ensure_account(self.stores.accounts, name, os.urandom, is_admin=is_admin)
            set_password(
                self.stores.accounts, one, PASSWORD, os.urandom, its.clock(), its.passwords.cost
            )
        service.keep(ten_rows(), "anna/foo")
        taken = AddPushSource(source_name="s", read=ReadStepNdJson(), merge=MergeStrategyAppend())
        service.keep(seeded().add(taken), "anna/posted")

    def limit(self, more: int) -> int:
        """Let anna store so many bytes more; return what she has."""
        used = self.stores.quotas.usage("anna").used
        self.stores.quotas.set_limit(self.anna.id, used + more)
        return used

    @property
    def anna(self) -> Account:
        found = self.stores.accounts.find_account("anna")
        assert found is not None
        return found

    def http(self, name: str = "anna") -> httpx.Client:
        its, given = self.service.node, json.dumps({"login": name, "password": PASSWORD})
        grant = login.log_in(its.passwords, its.sessions, "password", given, "127.0.0.1")
        return self.service.http(grant.token)

    @contextmanager
    def window(self, name: str) -> Iterator[httpx.Client]:
        """A browser in which somebody signed in."""
        self.service.node.throttle._windows.clear()
        with self.service.http() as http:
            http.headers["accept"] = "text/html"
            http.post("/v/sign-in", data={"login": name, "password": PASSWORD})
            yield http


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("quotas")
    with serving(folder, tenancy="multi", password_work=2) as service:
        yield Place(service)


@pytest.fixture(autouse=True)
def no_quotas(node: Place) -> Iterator[None]:
    yield
    for owner in (NODE, EACH, node.anna.id):
        node.stores.quotas.set_limit(owner, None)


def test_an_object_that_does_not_fit_is_refused_before_its_bytes_and_leaves_nothing(
    node: Place,
) -> None:
    used = node.limit(99)
    content = os.urandom(100)
    path = f"/anna/foo/data/{Multihash.of(content)}"
    with node.http() as http:
        refused = http.put(path, content=content)
        assert refused.status_code == 413
        told = refused.json()
        assert told["type"] == "urn:odf-node:problem:QuotaExceeded"
        assert (told["used"], told["limit"], told["needed"]) == (used, used + 99, 100)
        assert "odf-node quota set anna" in told["message"]
        part = {"upload-offset": "0", "upload-length": "100"}
        assert http.patch(path, content=content[:9], headers=part).status_code == 413
        assert http.head(path).status_code == 404
        node.limit(100)
        assert http.put(path, content=content).status_code == 200
        assert http.put(path, content=content).status_code == 200
    assert node.stores.quotas.usage("anna").used == used + 100


def test_an_upload_with_other_bytes_than_its_hash_says_does_not_count(node: Place) -> None:
    used = node.stores.quotas.usage("anna").used
    with node.http() as http:
        refused = http.put(f"/anna/foo/data/{Multihash.of(os.urandom(9))}", content=b"other")
        assert refused.status_code == 400
    assert node.stores.quotas.usage("anna").used == used


def test_a_push_that_does_not_fit_is_told_so_before_its_objects_are_sent(node: Place) -> None:
    chain, token = ten_rows(), node.service.token("anna")
    node.limit(2000)
    with talking(node.service, "/anna/pushed/push", token) as peer:
        assert peer.request_push(None, len(chain.blocks)) == {"Ok": {}}
        assert peer.ask(bundled(named(chain.blocks))) == {"Ok": {}}
        peer.say({"object_files": files_of(chain), "is_truncated": False})
        code, reason = peer.close_frame()
    assert code == 1011
    assert "quota: " in json.loads(reason)["Err"]["Internal"]["error_message"]
    assert head_of(node.service, "/anna/pushed", token) == str(chain.blocks[0].hash)


def test_files_and_large_bodies_are_refused_at_the_door_when_nothing_is_left(node: Place) -> None:
    node.limit(0)
    with node.http() as http:
        asked = "fileName=rows.csv&contentLength=10"
        assert http.post(f"/platform/file/upload/prepare?{asked}").status_code == 413
        large = b'{"text": "x"}\n' * (INLINE_BYTES // 14 + 2)
        headers = {"content-type": "application/x-ndjson"}
        assert http.post("/anna/posted/ingest", content=large, headers=headers).status_code == 413


def test_the_account_and_administrators_see_what_it_takes_and_only_those_set_its_quota(
    node: Place,
) -> None:
    with node.http() as own, node.http("bob") as other, node.http("chief") as chief:
        assert own.put("/accounts/anna/quota", json={"bytes": 5}).status_code == 403
        assert other.get("/accounts/anna/quota").status_code == 403
        assert chief.get("/accounts/nobody/quota").status_code == 404
        for wrong in ({"bytes": -1}, {"bytes": "5"}, {}, {"bytes": 2**61}):
            assert chief.put("/accounts/anna/quota", json=wrong).status_code == 400
        set_ = chief.put("/accounts/anna/quota", json={"bytes": 10**6})
        used = node.stores.quotas.usage("anna").used
        told = {"accountName": "anna", "usedBytes": used, "limitBytes": 10**6}
        assert set_.json() == {**told, "uncountedDatasets": 0}
        assert own.get("/accounts/anna/quota").json() == set_.json()
        assert chief.put("/accounts/anna/quota", json={"bytes": None}).json()["limitBytes"] is None
    with node.service.http(node.service.token("chief")) as token:
        assert token.put("/accounts/anna/quota", json={"bytes": 5}).status_code == 403
    with node.service.http() as nobody:
        assert nobody.get("/accounts/anna/quota").status_code == 401


def test_pages_show_what_is_taken_and_administrators_set_quotas_there(node: Place) -> None:
    with node.window("anna") as own, node.window("chief") as chief:
        page = "/v/admin/accounts/anna"
        done = chief.post(f"{page}/quota", data={"quota": "3 MB"})
        assert done.status_code == 303
        assert node.stores.quotas.limit(node.anna.id) == 3 * 10**6
        shown = chief.get(page).text
        assert 'value="3000000"' in shown
        wrong = chief.post(f"{page}/quota", data={"quota": "much"})
        assert "is no quota" in wrong.text
        assert "which an administrator can raise" in own.get("/v/accounts/anna").text
        assert "as quotas count" in chief.get("/v/admin/storage").text


def test_metrics_tell_what_is_taken_and_the_quota_of_the_node(node: Place) -> None:
    node.stores.quotas.set_limit(NODE, 10**9)
    used = node.stores.quotas.usage(NODE).used
    with node.service.http() as http:
        lines = http.get("/system/metrics").text.splitlines()
    assert f"odf_stored_bytes {float(used)}" in lines
    assert "odf_quota_bytes 1e+09" in lines


def test_a_quota_is_written_as_people_write_sizes() -> None:
    assert [parse_quota(text) for text in ("20GB", " 5 mb ", "7", "1kb", "2 TB", "9B", "none")] == [
        20 * 10**9,
        5 * 10**6,
        7,
        1000,
        2 * 10**12,
        9,
        None,
    ]
    for wrong in ("", "GB", "-1", "1.5 GB", "1 PB", "٣", "9" * 30, str(2**60 + 1)):
        with refusing("MalformedQuota"):
            parse_quota(wrong)


def test_commands_set_and_list_quotas(tmp_path: Path) -> None:
    here = ("--data", tmp_path / "data")
    assert odf("account", "create", "anna", *here).exit_code == 0
    assert odf("quota", "set", "anna", "20GB", *here).stdout == (
        "anna has a quota of 20000000000 bytes\n"
    )
    assert odf("quota", "set", "--each-account", "1GB", *here).exit_code == 0
    assert odf("quota", "set", "--node", "1 TB", "--json", *here).exit_code == 0
    told = json.loads(odf("quota", "list", "--json", *here).stdout)
    assert (told["node"]["limitBytes"], told["eachAccountBytes"]) == (10**12, 10**9)
    assert [one["limitBytes"] for one in told["accounts"]] == [20 * 10**9]
    assert odf("quota", "set", "anna", "none", *here).stdout == "anna has no quota\n"
    assert "anna  0 bytes  of 1000000000" in odf("quota", "list", *here).stdout
    for wrong in ((), ("anna",), ("anna", "1", "2"), ("--node", "anna", "1"), ("nobody", "1")):
        assert odf("quota", "set", *wrong, *here).exit_code != 0
