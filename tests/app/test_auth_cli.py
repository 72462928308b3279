"""Accounts, passwords and reaches of tokens, from the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from service import seeded, serving

from odf_node.cli.main import main
from odf_node.service.auth.passwords import verify_password
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.ports.values import Reach


@pytest.fixture
def run(tmp_path):
    def invoke(*words, code=0, stdin=None):
        given = [*words, "--data", str(tmp_path)]
        env = {"ODF_NODE_PASSWORD_WORK": "2"}
        done = CliRunner().invoke(main, given, env=env, input=stdin)
        assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    return invoke


@pytest.fixture
def stores(tmp_path):
    opened = open_stores(StoreSettings(data=tmp_path, durable=False))
    yield opened
    opened.close()


def test_an_account_is_made_with_its_password_and_listed(run, stores):
    made = json.loads(
        run("account", "create", "anna", "--password-stdin", "--json", stdin="anna's own\n")
    )
    run("account", "create", "bert", "--admin")
    anna = stores.accounts.find_account("ANNA")
    assert made == {"accountName": "anna", "accountId": anna.id, "isAdmin": False}
    assert verify_password("anna's own", stores.accounts.find_password(anna.id).text)
    listed = json.loads(run("account", "list", "--json"))
    shown = [(item["accountName"], item["isAdmin"], item["hasPassword"]) for item in listed]
    assert shown == [("anna", False, True), ("bert", True, False)]
    assert "admin" in run("account", "list")


@pytest.mark.parametrize(
    ("name", "stdin", "code"),
    [
        ("anna", "short\n", 2),
        ("anna", "", 2),
        ("platform", "long enough\n", 2),
        ("an_na", "long enough\n", 2),
        ("taken", "long enough\n", 5),
    ],
)
def test_an_account_that_cannot_be_is_not_made(run, stores, name, stdin, code):
    run("account", "create", "TAKEN")
    assert run("account", "create", name, "--password-stdin", code=code, stdin=stdin)
    assert [item.name for item in stores.accounts.page()] == ["TAKEN"]


def test_a_password_is_set_and_asked_for_twice(run, stores):
    run("account", "create", "anna")
    run("account", "password", "anna", stdin="first one\nfirst one\n")
    anna = stores.accounts.find_account("anna")
    assert verify_password("first one", stores.accounts.find_password(anna.id).text)
    run("account", "password", "anna", "--password-stdin", stdin="second one\r\n")
    assert verify_password("second one", stores.accounts.find_password(anna.id).text)
    run("account", "password", "nobody", "--password-stdin", stdin="long enough\n", code=3)


def test_the_owner_of_a_single_tenant_node_gets_a_password_before_it_was_ever_served(run, stores):
    run("account", "password", "kamu", "--password-stdin", stdin="kamu-kamu\n")
    assert stores.accounts.find_account("kamu").is_admin


def test_tokens_are_made_for_a_dataset_or_an_account(run, tmp_path):
    with serving(tmp_path) as service:
        entry = service.keep(seeded(), "kamu/foo")
    for reach, words in (
        (Reach.NODE, ()),
        (Reach.ACCOUNT, ("--account-scope",)),
        (Reach.DATASET, ("--dataset", "foo")),
        (Reach.DATASET, ("--dataset", "kamu/FOO")),
    ):
        made = json.loads(run("token", "create", "--account", "kamu", *words, "--json"))
        listed = json.loads(run("token", "list", "--account", "kamu", "--json"))
        (own,) = [item for item in listed if item["id"] == made["id"]]
        assert own["reach"] == reach
        assert own["datasetId"] == (str(entry.id) if reach is Reach.DATASET else None)
    both = ("--dataset", "foo", "--account-scope")
    run("token", "create", "--account", "kamu", *both, code=2)
    run("token", "create", "--account", "kamu", "--dataset", "missing", code=3)


def test_a_mistyped_account_is_told_and_not_made_without_a_word(run, stores, tmp_path):
    told = run("account", "disable", "berta", code=3)
    assert "there is no account berta" in told
    assert "`odf-node account list` shows all" in told
    run("account", "create", "bert")
    for name, note in (
        ("bert", ""),
        ("bertt", "note: there was no account bertt; this makes one\n"),
    ):
        given = ["token", "create", "--account", name, "--data", str(tmp_path)]
        assert CliRunner().invoke(main, given).stderr == note
    elsewhere = CliRunner().invoke(
        main, ["account", "create", "x", "--data", str(tmp_path / "new")]
    )
    assert "(--data names the folder of another)" in elsewhere.stderr
