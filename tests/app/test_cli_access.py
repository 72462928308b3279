"""Giving a colleague access at the shell, and tokens for oneself, without a shell on the node."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner
from service import serving, ten_rows

from odf_node.cli.main import main
from odf_node.client.nodes.home import Logins
from odf_node.service.accounts.accounts import create_account
from odf_node.service.accounts.login import begin_session
from odf_storage.stores.ports.values import Scope, Visibility


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    data = tmp_path_factory.mktemp("access")
    with serving(data, tenancy="multi", max_account_tokens=3) as service:
        for name in ("anna", "bert"):
            create_account(service.node.stores.accounts, name, os.urandom)
        service.keep(ten_rows(), "anna/own", Visibility.PRIVATE)
        yield service


@pytest.fixture
def person(node, tmp_path):
    """Runs commands as somebody who logged in: `person(account, *words)`."""

    def run(account, *words, code=0, token=""):
        folder = tmp_path / account
        if not (folder / "logins.json").exists():
            owner = node.node.stores.accounts.find_account(account)
            session = begin_session(node.node.sessions, owner)
            Logins(folder).keep(node.url, session.token, account, session.expires_in_s)
        env = {"ODF_NODE_CONFIG": str(folder), "ODF_NODE_TOKEN": token}
        done = CliRunner().invoke(main, [str(word) for word in words], env=env)
        assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def test_a_colleague_is_given_access_and_it_is_taken_back(node, person):
    own = f"{node.url}/anna/own"
    person("bert", "dataset", "show", own, code=3)
    assert person("anna", "access", "grant", own, "bert", "reader") == "bert is Reader\n"
    person("bert", "dataset", "show", own)
    person("bert", "access", "list", own, code=4)
    assert person("anna", "access", "list", own).splitlines()[0] == "Private"
    listed = json.loads(person("anna", "access", "list", own, "--json"))
    assert [(one["accountName"], one["role"]) for one in listed["roles"]] == [("bert", "Reader")]
    person("anna", "access", "revoke", own, "bert")
    person("bert", "dataset", "show", own, code=3)


def test_a_dataset_is_made_public_and_private_again(node, person):
    own = f"{node.url}/anna/own"
    assert person("anna", "access", "public", own) == f"{own} is Public\n"
    person("bert", "dataset", "show", own)
    person("bert", "access", "private", own, code=4)
    assert json.loads(person("anna", "access", "private", own, "--json")) == {
        "visibility": "Private"
    }
    person("bert", "dataset", "show", own, code=3)


def test_a_role_for_nobody_or_of_no_kind_is_refused(node, person):
    own = f"{node.url}/anna/own"
    person("anna", "access", "grant", own, "nobody", "reader", code=3)
    person("anna", "access", "grant", own, "anna", "reader", code=2)
    person("anna", "access", "grant", own, "bert", "king", code=2)
    person("anna", "access", "grant", own, "../../x", "reader", code=2)


def test_a_person_makes_lists_and_revokes_tokens_of_their_own(node, person):
    at = ("--node", node.url)
    told = person("anna", "token", "create", *at, "--label", "laptop", "--expires", "30d", "--json")
    made = json.loads(told)
    assert (made["account"], made["label"], made["reach"]) == ("anna", "laptop", "node")
    with node.http(made["token"]) as client:
        assert client.get("/accounts/me").json()["accountName"] == "anna"
        listed = person("anna", "token", "list", *at)
        assert f"{made['id']}  create,manage,read,write  node  expires " in listed
        assert made["token"] not in listed
        person("bert", "token", "revoke", made["id"], *at, code=3)
        person("anna", "token", "revoke", made["id"], *at)
        assert client.get("/accounts/me").status_code == 401


def test_a_token_is_for_one_dataset_if_asked(node, person):
    words = ("token", "create", "--node", node.url, "--dataset")
    made = json.loads(person("anna", *words, "own", "--scope", "read", "--json"))
    assert (made["reach"], made["scopes"]) == ("dataset", ["read"])
    person("bert", *words, "anna/own", code=3)
    person("anna", "token", "revoke", made["id"], "--node", node.url)


def test_a_token_makes_no_token(node, person):
    token = node.token("anna")
    person("anna", "token", "create", "--node", node.url, "--token", token, code=4)
    few = node.token("anna", Scope.READ)
    person("anna", "token", "list", "--node", node.url, "--token", few, code=4)


def test_an_account_has_as_many_tokens_as_the_node_allows(node, person):
    words = ("token", "create", "--node", node.url)
    made = [json.loads(person("bert", *words, "--json")) for _ in range(3)]
    person("bert", *words, code=1)
    person("bert", "token", "revoke", made[0]["id"], "--node", node.url)
    person("bert", *words)


def test_what_is_for_the_machine_of_the_node_is_not_sent_to_it(node, person):
    person("anna", "token", "create", "--node", node.url, "--account", "bert", code=2)
    person("anna", "token", "create", code=2)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b'{"label": 5}',
        b'{"scopes": []}',
        b'{"scopes": ["everything"]}',
        b'{"expiresAt": "2001-01-01T00:00:00Z"}',
        b'{"expiresAt": "tomorrow"}',
        b'{"label": "\\u001b[2J"}',
        b'{"label": "' + b"x" * 201 + b'"}',
        b'{"dataset": "own", "ownDatasetsOnly": true}',
        b'{"unknown": 1}',
    ],
    ids=repr,
)
def test_a_request_for_a_token_that_cannot_be_is_refused(node, body):
    owner = node.node.stores.accounts.find_account("anna")
    session = begin_session(node.node.sessions, owner)
    before = len(node.node.stores.accounts.tokens(owner.id))
    with node.http(session.token) as client:
        assert client.post("/accounts/me/tokens", content=body).status_code == 400
    assert len(node.node.stores.accounts.tokens(owner.id)) == before


def test_a_stranger_has_no_tokens(node):
    with node.http() as client:
        assert client.get("/accounts/me/tokens").status_code == 401
        assert client.post("/accounts/me/tokens").status_code == 401
