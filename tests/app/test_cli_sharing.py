"""A profile file for a recipient of shares, made at the shell."""

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
from odf_storage.stores.ports.values import Visibility


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shared"), tenancy="multi") as service:
        create_account(service.node.stores.accounts, "anna", os.urandom)
        service.keep(ten_rows(), "anna/own", Visibility.PRIVATE)
        service.keep(ten_rows(), "anna/other", Visibility.PRIVATE)
        yield service


@pytest.fixture
def anna(node, tmp_path):
    """Runs `odf-node sharing profile` as somebody who logged in."""
    folder = tmp_path / "anna"
    session = begin_session(node.node.sessions, node.node.stores.accounts.find_account("anna"))
    Logins(folder).keep(node.url, session.token, "anna", session.expires_in_s)

    def run(*words):
        env = {"ODF_NODE_CONFIG": str(folder), "ODF_NODE_TOKEN": ""}
        asked = ["sharing", "profile", node.url, *map(str, words)]
        return CliRunner().invoke(main, asked, env=env)

    return run


def shared(node, profile, table):
    with node.http(profile["bearerToken"]) as http:
        root = "/delta-sharing/shares/anna/schemas/default/tables"
        return http.get(f"{root}/{table}/version").status_code


def test_a_profile_reads_and_does_nothing_else(node, anna, tmp_path):
    out = tmp_path / "config.share"
    told = json.loads(anna("--out", out, "--expires", "30d", "--json").stdout)
    profile = json.loads(out.read_text())
    assert profile["shareCredentialsVersion"] == 1
    assert profile["endpoint"] == f"{node.url}/delta-sharing/"
    assert (told["path"], told["expiresAt"]) == (str(out), profile["expirationTime"])
    assert out.stat().st_mode & 0o077 == 0
    assert shared(node, profile, "own") == 200
    with node.http(profile["bearerToken"]) as http:
        assert http.post("/anna/own/ingest", json={"city": "x"}).status_code == 403
        assert http.get("/accounts/me/tokens").status_code == 403
    kept = node.node.stores.accounts.find_token(told["token"])
    assert kept.label == "Delta Sharing"


def test_a_profile_is_for_one_dataset_if_asked(node, anna, tmp_path):
    out = tmp_path / "one.share"
    assert anna("--out", out, "--dataset", "anna/own").exit_code == 0
    profile = json.loads(out.read_text())
    assert shared(node, profile, "own") == 200
    assert shared(node, profile, "other") == 404


def test_a_file_that_is_there_stays_and_no_token_is_made(node, anna, tmp_path):
    out = tmp_path / "config.share"
    out.write_text("mine")
    owner = node.node.stores.accounts.find_account("anna")
    before = len(node.node.stores.accounts.tokens(owner.id))
    done = anna("--out", out)
    assert (done.exit_code, "exists" in done.stderr) == (5, True)
    assert out.read_text() == "mine"
    assert len(node.node.stores.accounts.tokens(owner.id)) == before


def test_an_expiry_that_is_none_is_refused(anna, tmp_path):
    done = anna("--out", tmp_path / "x", "--expires", "soon")
    assert done.exit_code == 2
