"""Accounts that get rights or other names, and accounts that are deleted, with their datasets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from refusals import refusing
from service import NOON, Chain, Service, serving, ten_rows

from odf_node.cli.main import main
from odf_node.service.accounts import login
from odf_node.service.accounts.accounts import ensure_account, set_password
from odf_node.service.definitions.variables import VariableBody, set_variable
from odf_node.service.derivatives.follow import submit_transform
from odf_node.service.membership.membership import FateOfDatasets
from odf_protocol.codec.manifests import to_data
from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import (
    DatasetKind,
    Seed,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.metadata.sources import FetchStepUrl, MergeStrategyAppend, ReadStepNdJson
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.following import Author, definition_hash
from odf_storage.stores.ports.values import Account, DatasetEntry, Role, Visibility

PASSWORD = "a long password"


class Set:
    """A node with an administrator, and anna, who has two datasets."""

    def __init__(self, service: Service) -> None:
        self.service, self.stores, its = service, service.node.stores, service.node
        for name, is_admin in (("chief", True), ("anna", False), ("bob", False)):
            one = ensure_account(self.stores.accounts, name, os.urandom, is_admin=is_admin)
            now, cost = its.clock(), its.passwords.cost
            set_password(self.stores.accounts, one, PASSWORD, os.urandom, now, cost)
        self.own = service.keep(ten_rows(), "anna/own", Visibility.PRIVATE)
        self.other = service.keep(ten_rows(), "anna/other", Visibility.PUBLIC)
        self.anna = service.token("anna")

    def account(self, name: str = "anna") -> Account | None:
        return self.stores.accounts.find_account(name)

    def named(self, alias: str) -> bool:
        found = self.stores.registry.find(DatasetRef(alias=DatasetAlias.parse(alias)))
        return found is not None

    def http(self, name: str = "chief") -> httpx.Client:
        its, given = self.service.node, json.dumps({"login": name, "password": PASSWORD})
        grant = login.log_in(its.passwords, its.sessions, "password", given, "127.0.0.1")
        return self.service.http(grant.token)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Set]:
    with serving(tmp_path / "data", tenancy="multi", password_work=2) as service:
        yield Set(service)


def delete(http: httpx.Client, name: str = "anna", **asked: str) -> httpx.Response:
    return http.delete(f"/accounts/{name}", params=asked)


def test_an_account_becomes_an_administrator_and_a_user_again(node: Set) -> None:
    with node.http() as http:
        assert http.put("/accounts/anna/admin").status_code == 204
        found = node.account()
        assert found is not None
        assert found.is_admin
        own = http.delete("/accounts/chief/admin")
        assert (own.status_code, own.json()["type"]) == (409, "urn:odf-node:problem:OwnAccount")
        assert http.delete("/accounts/anna/admin").status_code == 204
    assert not node.account().is_admin


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/accounts/bob/admin"),
        ("DELETE", "/accounts/bob/admin"),
        ("PUT", "/accounts/bob/name"),
        ("DELETE", "/accounts/bob?datasets=keep"),
        ("GET", "/accounts/bob/deletion"),
    ],
)
def test_only_administrators_change_accounts_and_not_by_tokens(
    node: Set, method: str, path: str
) -> None:
    body = {"content": b'{"name": "bert"}'} if path.endswith("name") else {}
    with node.service.http() as anybody, node.http("anna") as user:
        assert anybody.request(method, path, **body).status_code == 401
        assert user.request(method, path, **body).status_code == 403
    with node.service.http(node.service.token("chief")) as by_token:
        expected = 200 if method == "GET" else 403
        assert by_token.request(method, path, **body).status_code == expected
    assert node.account("bob") is not None
    assert not node.account("bob").is_admin


def test_a_renamed_account_keeps_its_datasets_tokens_and_earlier_addresses(node: Set) -> None:
    with node.http() as http:
        answer = http.put("/accounts/anna/name", json={"name": "Anna-Smith"})
        assert answer.json() == {"id": node.account("anna-smith").id, "accountName": "Anna-Smith"}
    assert node.account() is None
    with node.service.http(node.anna) as own:
        assert own.get("/accounts/me").json()["accountName"] == "Anna-Smith"
        assert own.get("/anna-smith/own/tail").status_code == 200
        told = own.get("/anna/own/tail")
        assert told.status_code == 404
        assert "Anna-Smith/own" in told.text
    alias = node.stores.objects.read_alias(node.own.id)
    assert str(alias) == "Anna-Smith/own"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bob", "AccountNameTaken"),
        ("BOB", "AccountNameTaken"),
        ("datasets", "ReservedName"),
        ("a b", "MalformedName"),
        ("", "MalformedName"),
        ("x" * 101, "NameTooLong"),
    ],
)
def test_a_name_that_cannot_be_taken_changes_nothing(node: Set, name: str, code: str) -> None:
    with node.http() as http:
        answer = http.put("/accounts/anna/name", json={"name": name})
    assert answer.json()["type"].endswith(f":{code}"), answer.text
    assert node.account() is not None
    assert node.named("anna/own")


def test_an_account_may_change_the_case_of_its_name(node: Set) -> None:
    with node.http() as http:
        assert http.put("/accounts/anna/name", json={"name": "ANNA"}).status_code == 200
    assert node.account().name == "ANNA"
    assert node.named("anna/own")


def test_a_deletion_is_told_before_and_changes_nothing_then(node: Set) -> None:
    with node.http() as http:
        told = http.get("/accounts/anna/deletion", params={"datasets": "remove"}).json()
        assert (told["count"], told["names"]) == (2, ["anna/other", "anna/own"])
        assert told["hindrances"] == []
        kept = http.get("/accounts/anna/deletion").json()
        assert kept["keepsName"]
        assert not http.get("/accounts/bob/deletion").json()["keepsName"]
    assert node.account().disabled_at is None
    assert node.named("anna/own")


def test_datasets_of_a_deleted_account_go_to_another(node: Set) -> None:
    with node.http() as http:
        session = node.http("anna")
        answer = delete(http, datasets="transfer", to="bob")
        assert answer.status_code == 200, answer.text
        assert http.get("/accounts/anna").status_code == 404
        for bearer in (node.anna, session.headers["authorization"].partition(" ")[2]):
            with node.service.http(bearer) as gone:
                assert gone.get("/accounts/me").status_code == 401
        assert node.named("bob/own")
        assert http.put("/accounts/bob/name", json={"name": "berta"}).status_code == 200
        session.close()
    with node.service.http(node.service.token("berta")) as heir:
        assert heir.get("/berta/own/tail").status_code == 200
    again = ensure_account(node.stores.accounts, "anna", os.urandom)
    assert node.stores.accounts.tokens(again.id) == []


def test_datasets_of_a_deleted_account_are_removed(node: Set) -> None:
    with node.http() as http:
        assert delete(http, datasets="remove").status_code == 200
    assert not node.named("anna/own")
    assert node.account() is None
    assert node.stores.registry.page(account="anna") == []


def test_kept_datasets_stay_with_an_account_that_nobody_can_use(node: Set) -> None:
    node.stores.roles.put(node.own.id, node.account("bob").id, Role.READER)
    node.stores.provider_accounts.link("https://issuer.example", "ann", node.account().id)
    with node.http() as http:
        assert delete(http, datasets="keep").status_code == 200
        assert http.put("/accounts/chief/name", json={"name": "anna"}).status_code == 409
    left = node.account()
    assert left is not None
    assert left.disabled_at is not None
    assert node.stores.accounts.find_password(left.id) is None
    assert node.stores.accounts.tokens(left.id) == []
    assert node.stores.provider_accounts.find("https://issuer.example", "ann") is None
    with node.service.http(node.service.token("bob")) as reader:
        assert reader.get("/anna/own/tail").status_code == 200


def test_an_account_without_datasets_leaves_no_name_behind(node: Set) -> None:
    with node.http() as http:
        assert delete(http, "bob", datasets="keep").json()["keepsName"] is False
    assert node.account("bob") is None


def test_a_hindered_deletion_says_why_and_changes_nothing(node: Set) -> None:
    node.service.keep(ten_rows(), "bob/own")
    with node.http() as http:
        told = http.get("/accounts/anna/deletion", params={"datasets": "transfer", "to": "bob"})
        assert told.json()["hindrances"] == ["bob/own is there already"]
        answer = delete(http, datasets="transfer", to="bob")
        assert answer.status_code == 409
        assert "bob/own is there already" in answer.json()["detail"]
    assert node.account().disabled_at is None
    assert node.named("anna/other")


def test_datasets_that_others_derive_from_are_not_removed(node: Set) -> None:
    derived = node.service.keep(ten_rows(), "bob/derived")
    node.stores.registry.set_inputs(derived.id, [node.own.id])
    with node.http() as http:
        answer = delete(http, datasets="remove")
        assert "derivatives of others read anna/own" in answer.json()["detail"]
    assert node.named("anna/own")


def test_derivatives_are_removed_before_what_they_read(node: Set) -> None:
    node.stores.registry.set_inputs(node.other.id, [node.own.id])
    with node.http() as http:
        assert delete(http, datasets="remove").status_code == 200
    assert node.stores.registry.page(account="anna") == []


def derived_by_anna(node: Set) -> tuple[DatasetEntry, SetTransform]:
    """A derivative of anna over her private dataset, which she defined."""
    inputs = (TransformInput(dataset_ref=DatasetRef(id=node.own.id), alias="own"),)
    sql = TransformSql(engine="datafusion", queries=(SqlQueryStep(query="select * from own"),))
    event = SetTransform(inputs=inputs, transform=sql)
    dataset = key_pair(os.urandom(32)).dataset_id
    chain = Chain(dataset).add(Seed(dataset_id=dataset, dataset_kind=DatasetKind.Derivative), event)
    alias = DatasetAlias.parse("anna/derived")
    entry = DatasetEntry(dataset, alias, DatasetKind.Derivative, Visibility.PUBLIC, NOON)
    node.stores.create_dataset(entry, chain.blocks)
    node.stores.definitions.put(dataset, definition_hash(event), Author(node.account().id))
    return entry, event


def test_what_ran_in_the_name_of_a_deleted_account_is_told_and_its_heir_takes_it_over(
    node: Set,
) -> None:
    entry, event = derived_by_anna(node)
    computing = node.service.node.refreshing.computing
    with node.http() as http:
        for fate in ("keep", "remove"):
            told = http.get("/accounts/anna/deletion", params={"datasets": fate}).json()
            assert told["leftBehind"] == []
        [told] = delete(http, datasets="transfer", to="bob").json()["leftBehind"]
        assert told.startswith("anna/derived reads datasets that are not public in the name of an")
    with refusing("InputsNotHere", match="append the same SetTransform in the name of its owner"):
        submit_transform(computing, entry)
    with node.service.http(node.service.token("bob")) as heir:
        content = to_data(event)
        said = {"kind": "MetadataEvent", "version": 1, "content": content}
        again = heir.post("/bob/derived/metadata", content=json.dumps(said))
        assert again.status_code == 200, again.text
    assert len(node.stores.dataset(DatasetRef(id=entry.id)).blocks()) == 2
    assert submit_transform(computing, entry)


def test_variables_of_a_deleted_account_that_sources_use_are_told(node: Set) -> None:
    source = SetPollingSource(
        fetch=FetchStepUrl(url="https://example.org/${{ env.REGION }}"),
        read=ReadStepNdJson(),
        merge=MergeStrategyAppend(),
    )
    dataset = key_pair(os.urandom(32)).dataset_id
    chain = Chain(dataset).add(Seed(dataset_id=dataset, dataset_kind=DatasetKind.Root), source)
    node.service.keep(chain, "anna/polled")
    body = VariableBody(value="eu", secret=False)
    set_variable(node.service.node.variables, node.account().id, "REGION", body)
    with node.http() as http:
        asked = {"datasets": "transfer", "to": "bob"}
        told = http.get("/accounts/anna/deletion", params=asked).json()["leftBehind"]
        http.cookies.set("odf_session", http.headers.pop("authorization").partition(" ")[2])
        page = http.get("/v/admin/accounts/anna/deletion", params=asked).text
    said = "anna/polled is polled with variables of anna (REGION): set them for the dataset"
    assert told == [said]
    assert said in page


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, 400),
        ({"datasets": "burn"}, 400),
        ({"datasets": "transfer"}, 400),
        ({"datasets": "transfer", "to": "anna"}, 400),
        ({"datasets": "transfer", "to": "nobody"}, 404),
        ({"datasets": "remove", "to": "bob"}, 400),
        ({"datasets": "keep", "more": "1"}, 400),
    ],
)
def test_a_deletion_that_is_not_clear_is_refused(
    node: Set, asked: dict[str, str], status: int
) -> None:
    with node.http() as http:
        assert delete(http, **asked).status_code == status
        assert delete(http, "chief", datasets="keep").status_code == 409
        assert delete(http, "nobody", datasets="keep").status_code == 404
    assert node.account().disabled_at is None


def test_a_deletion_that_breaks_off_goes_on_when_it_is_asked_for_again(
    node: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    its = node.service.node.membership
    removed: list[Any] = []
    forget = Stores.forget_dataset

    def once(stores: Stores, dataset: Any, **more: Any) -> None:
        if removed:
            raise OSError("the machine went down")
        removed.append(dataset)
        forget(stores, dataset, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Stores, "forget_dataset", once)
        with pytest.raises(OSError, match="went down"):
            its.delete(its.plan(node.account(), FateOfDatasets.REMOVE, None))
    assert node.account().disabled_at is not None
    its.delete(its.plan(node.account(), FateOfDatasets.REMOVE, None))
    assert node.account() is None


def test_a_transfer_happens_as_a_whole_or_not_at_all(node: Set) -> None:
    its = node.service.node.membership
    leaving = its.plan(node.account(), FateOfDatasets.TRANSFER, "bob")
    node.service.keep(ten_rows(), "bob/own")  # after the plan was made
    with refusing("AliasTaken"):
        its.delete(leaving)
    assert node.named("anna/own")
    assert node.named("anna/other")
    assert node.account() is not None


def test_the_account_of_a_node_with_one_tenant_keeps_its_name(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        its, owner = service.node.membership, service.node.stores.accounts.find_account("kamu")
        assert owner is not None
        with refusing("PredefinedAccount"):
            its.rename(owner, "anna")
        with refusing("PredefinedAccount"):
            its.plan(owner, FateOfDatasets.KEEP, None)


def test_pages_show_what_a_deletion_does_before_it_is_done(node: Set) -> None:
    with node.http() as http:
        bearer = http.headers.pop("authorization").partition(" ")[2]
        http.cookies.set("odf_session", bearer)
        at = "/v/admin/accounts/anna"
        page = http.get(at).text
        for words in ("Make it an administrator", "Rename it", "Show what that does"):
            assert words in page
        told = http.get(f"{at}/deletion", params={"datasets": "transfer", "to": "bob"})
        assert "2 datasets go to bob" in told.text
        assert "anna/own" in told.text
        wrong = http.get(f"{at}/deletion", params={"datasets": "transfer"})
        assert wrong.status_code == 400
        assert "name another account" in wrong.text
        assert http.post(f"{at}/admin", data={"admin": "yes"}).status_code == 303
        assert node.account().is_admin
        moved = http.post(f"{at}/name", data={"name": "ann"})
        assert moved.headers["location"] == "/v/admin/accounts/ann"
        form = {"datasets": "transfer", "to": "bob"}
        gone = http.post("/v/admin/accounts/ann/deletion", data=form)
        assert gone.headers["location"] == "/v/admin/accounts"
    assert node.named("bob/own")


def odf(data: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["account", *words, "--data", str(data)])


def test_commands_change_and_delete_accounts(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("ODF_OIDC_ISSUER", raising=False)
    for name in ("anna", "bob"):
        assert odf(tmp_path, "create", name).exit_code == 0
    assert odf(tmp_path, "promote", "anna").stdout == "anna is an administrator\n"
    assert odf(tmp_path, "demote", "anna").stdout == "anna is a user\n"
    assert odf(tmp_path, "rename", "anna", "berta").stdout == "anna is berta now\n"
    assert odf(tmp_path, "rename", "berta", "bob").exit_code != 0
    told = odf(tmp_path, "delete", "berta", "--datasets", "keep", "--dry-run")
    assert told.stdout == "berta would be deleted; 0 dataset(s): keep\n"
    nobody = odf(tmp_path, "link", "berta", "--subject", "s")
    assert "ODF_OIDC_ISSUER" in nobody.output
    linked = odf(tmp_path, "link", "berta", "--subject", "s", "--issuer", "https://i.example")
    assert linked.stdout == "s at https://i.example logs in as berta\n"
    gone = json.loads(odf(tmp_path, "delete", "berta", "--datasets", "keep", "--json").stdout)
    assert (gone["accountName"], gone["keepsName"]) == ("berta", False)
    assert "berta" not in odf(tmp_path, "list").stdout


def test_the_command_asks_before_it_removes_datasets(node: Set, tmp_path: Path) -> None:
    words = ("delete", "anna", "--datasets", "remove")
    asked = odf(tmp_path / "data", *words)
    assert asked.exit_code != 0
    assert "This will remove 2 dataset(s) of anna with all their data" in asked.stderr
    assert node.named("anna/own")
    assert odf(tmp_path / "data", *words, "--yes").exit_code == 0
    assert not node.named("anna/own")
