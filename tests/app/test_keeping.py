"""A dataset as a whole: renamed, deleted, added to; over HTTP and from the command line."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner
from service import serving, ten_rows

from odf_node.cli.main import main
from odf_node.service.accounts.accounts import ensure_account
from odf_protocol.identity import DatasetRef
from odf_storage.stores.ports.values import Role, Visibility

OTHER = "f1620" + "0" * 64
INFO = "kind: MetadataEvent\nversion: 1\ncontent: {kind: SetInfo, description: rows of a test}\n"


@pytest.fixture
def service(tmp_path):
    with serving(tmp_path) as service:
        yield service


@pytest.fixture
def chain():
    return ten_rows()


@pytest.fixture
def entry(service, chain):
    return service.keep(chain, "kamu/city", Visibility.PUBLIC)


@pytest.fixture
def client(service):
    with service.http(service.token()) as client:
        yield client


def run(service, *words, said=""):
    env = {"ODF_NODE_TOKEN": service.token()}
    return CliRunner().invoke(main, ["dataset", *words], env=env, input=said)


def address(service, name="city"):
    return f"{service.url}/{name}"


def test_a_renamed_dataset_is_found_by_its_new_name_and_by_no_other(service, client, entry):
    answer = client.put("/city/name", json={"name": "town"})
    assert (answer.status_code, answer.json()["alias"]) == (200, "town")
    assert answer.json()["url"] == address(service, "town")
    assert client.get("/town").json()["id"] == str(entry.id)
    assert client.get("/city").status_code == 404
    assert client.get("/town/refs/head").status_code == 200


@pytest.mark.parametrize("name", ["", "two words", "a/b", "-", "x" * 101])
def test_a_name_that_is_none_is_refused(client, entry, name):
    answer = client.put("/city/name", json={"name": name})
    assert answer.status_code == 400
    assert client.get("/city").status_code == 200


def test_a_dataset_with_a_name_that_is_too_long_is_not_created(client):
    content = {"name": "x" * 101, "kind": "Root", "metadata": []}
    body = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    answer = client.post("/datasets", json=body)
    assert (answer.status_code, answer.json()["most"]) == (400, 100)


def test_a_taken_name_is_refused(service, client, entry):
    service.keep(ten_rows(), "kamu/town", Visibility.PUBLIC)
    answer = client.put("/city/name", json={"name": "TOWN"})
    assert answer.status_code == 409
    assert answer.json()["type"].endswith("AliasTaken")


def test_a_deleted_dataset_is_gone_with_its_objects_and_can_be_made_again(
    service, client, chain, entry
):
    assert client.delete("/city").status_code == 204
    assert client.get("/city").status_code == 404
    assert client.delete("/city").status_code == 404
    assert not list(service.node.stores.objects.list(entry.id))
    service.keep(chain, "kamu/city", Visibility.PUBLIC)
    assert client.get("/city/refs/head").text == str(chain.head)


def test_a_dataset_whose_head_has_moved_is_not_deleted(client, chain, entry):
    answer = client.delete("/city", params={"expectedHead": OTHER})
    assert (answer.status_code, answer.json()["actual"]) == (409, str(chain.head))
    assert client.get("/city").status_code == 200


def test_a_dataset_that_others_read_stays_until_they_are_gone(service, client, entry):
    reader = service.keep(ten_rows(), "kamu/reader", Visibility.PUBLIC)
    service.node.stores.registry.set_inputs(reader.id, [entry.id])
    answer = client.delete("/city")
    assert (answer.status_code, answer.json()["derivatives"]) == (409, ["reader"])
    assert "reader" in answer.json()["detail"]
    assert client.get("/city").status_code == 200
    assert client.delete("/reader").status_code == 204
    assert client.delete("/city").status_code == 204


def test_who_reads_it_is_told_only_to_those_who_may_see_it(multi):
    entry = multi.keep(ten_rows(), "alice/kept", Visibility.PUBLIC)
    hidden = multi.keep(ten_rows(), "bob/hidden", Visibility.PRIVATE)
    multi.node.stores.registry.set_inputs(hidden.id, [entry.id])
    with multi.http(multi.token("alice")) as client:
        answer = client.delete("/alice/kept")
    assert (answer.status_code, answer.json()["derivatives"]) == (409, [])
    assert "hidden" not in answer.text


def test_a_maintainer_renames_and_only_the_owner_deletes(multi):
    entry = multi.keep(ten_rows(), "alice/ours", Visibility.PUBLIC)
    bob = ensure_account(multi.node.stores.accounts, "bob", os.urandom).id
    for role, status in ((None, 403), (Role.EDITOR, 403), (Role.MAINTAINER, 200)):
        if role is not None:
            multi.node.stores.roles.put(entry.id, bob, role)
            multi.node.roles.forget(bob)
        with multi.http(multi.token("bob")) as client:
            answer = client.put("/alice/ours/name", json={"name": "ours"})
            assert answer.status_code == status
            assert client.delete("/alice/ours").status_code == 403
    with multi.http(multi.token("alice")) as client:
        assert client.delete("/alice/ours").status_code == 204


def test_the_command_line_appends_renames_hides_and_deletes(service, entry, tmp_path):
    manifest = tmp_path / "info.yaml"
    manifest.write_text(INFO)
    dry = run(service, "append", address(service), str(manifest), "--dry-run")
    assert dry.exit_code == 0
    assert "rows of a test" in dry.stdout
    done = run(service, "append", "city", str(manifest), "--node", service.url, "--json")
    head = service.node.stores.dataset(DatasetRef(id=entry.id)).head()
    assert json.loads(done.stdout)["head"] == str(head)
    assert run(service, "rename", address(service), "town").stdout.endswith("is town now\n")
    hidden = run(service, "visibility", address(service, "town"), "private", "--json")
    assert json.loads(hidden.stdout) == {"visibility": "Private"}
    kept = run(service, "delete", address(service, "town"), said="n\n")
    assert kept.exit_code != 0
    gone = run(service, "delete", address(service, "town"), "--yes")
    assert (gone.exit_code, gone.stdout) == (0, f"deleted {address(service, 'town')}\n")
    missing = run(service, "delete", address(service, "town"), "--yes", "--json")
    assert missing.exit_code == 3


def test_data_is_not_appended_by_hand(service, entry, tmp_path):
    manifest = tmp_path / "data.yaml"
    manifest.write_text("kind: MetadataEvent\nversion: 1\ncontent: {kind: AddData}\n")
    assert run(service, "append", address(service), str(manifest)).exit_code == 1
