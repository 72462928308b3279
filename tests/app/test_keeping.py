"""A dataset as a whole: renamed, deleted, added to; over HTTP and from the command line."""

from __future__ import annotations

import json
import os

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from servers import wait_until
from service import serving, ten_rows

from odf_node.cli.main import main
from odf_node.service.accounts.accounts import ensure_account
from odf_protocol.identity import DatasetAlias, DatasetRef
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


def test_a_former_name_answers_with_the_name_of_today(service, client, entry):
    client.put("/city/name", json={"name": "place"})
    client.put("/place/name", json={"name": "town"})
    for name in ("city", "Place"):
        for path in ("", "/tail", "/refs/head", "/blocks/" + OTHER, "/metadata", "/jobs"):
            answer = client.get(f"/{name}{path}")
            assert answer.status_code == 404
            assert answer.headers["content-type"] == "application/problem+json"
            said = answer.json()
            assert said["type"].endswith(":DatasetRenamed")
            assert said["detail"] == "the dataset was renamed to town"
            assert (said["name"], said["location"]) == ("town", "/town")
        answer = client.post(f"/{name}/ingest", json=[{"number": 1}])
        assert (answer.status_code, answer.json()["name"]) == (404, "town")
    asked = {"query": "select * from city", "queryDialect": "SqlDataFusion"}
    assert 'it was renamed to "town"' in client.post("/query", json=asked).json()["message"]


def test_a_dataset_that_takes_a_former_name_has_it_alone(service, client, entry):
    client.put("/city/name", json={"name": "town"})
    second = service.keep(ten_rows(), "kamu/City", Visibility.PUBLIC)
    assert client.get("/city").json()["id"] == str(second.id)
    assert client.delete("/city").status_code == 204
    answer = client.get("/city/refs/head")
    assert (answer.status_code, answer.content) == (404, b"")


def test_the_name_of_today_is_told_only_to_those_who_may_read_it(multi):
    entry = multi.keep(ten_rows(), "alice/before", Visibility.PRIVATE)
    with multi.http(multi.token("alice")) as client:
        assert client.put("/alice/before/name", json={"name": "after"}).status_code == 200
        assert client.get("/alice/before").json()["name"] == "alice/after"
    multi.keep(ten_rows(), "alice/hidden", Visibility.PRIVATE)
    expired = multi.token("alice", expires_at=multi.node.clock())
    page = {"accept": "text/html"}
    for token in (None, multi.token("bob"), expired):
        with multi.http(token) as client:
            for path in ("", "/refs/head", "/blocks/" + OTHER, "/data/" + OTHER, "/tail", "/pull"):
                for headers in ({}, page):
                    former, missing, hidden = (
                        _told(client.get(f"/alice/{name}{path}", headers=headers), name)
                        for name in ("before", "missing", "hidden")
                    )
                    assert former == missing == hidden
                    assert former[0] == 404
            posts = [client.post(f"/alice/{name}/ingest", json=[]) for name in ("before", "none")]
            assert _told(posts[0]) == _told(posts[1])
    multi.node.stores.set_visibility(entry.id, Visibility.PUBLIC)
    with multi.http() as client:
        assert client.get("/alice/before").json()["location"] == "/alice/after"


TABLES = (
    "/delta-sharing/shares/alice/schemas/{view}/tables/{name}/metadata",
    "/delta-sharing/shares/alice/schemas/{view}/tables/{name}/version",
    "/iceberg/v1/{view}/namespaces/alice/tables/{name}",
)
"""Addresses of a table in other protocols."""


def test_a_former_name_of_a_table_answers_with_that_of_today_to_those_who_may_read_it(multi):
    entry = multi.keep(ten_rows(), "alice/before.it", Visibility.PRIVATE)
    multi.node.stores.rename_dataset(entry.id, DatasetAlias.parse("alice/after.it"))
    multi.keep(ten_rows(), "alice/hidden.it", Visibility.PRIVATE)
    for view in ("default", "changelog"):
        for path in TABLES:
            with multi.http(multi.token("bob")) as client:
                former, missing, hidden = (
                    _told(client.get(path.format(view=view, name=name)), name)
                    for name in ("before_it", "missing_it", "hidden_it")
                )
                assert former == missing == hidden
                assert former[0] == 404
            with multi.http(multi.token("alice")) as client:
                answer = client.get(path.format(view=view, name="before_it"))
                assert answer.status_code == 404
                wanted = "alice.after_it" if "iceberg" in path else "after_it, in the share alice"
                assert f"the table was renamed to {wanted}" in answer.text
                assert "after" not in client.get(path.format(view=view, name="missing_it")).text
                assert client.get(path.format(view=view, name="after_it")).status_code == 200


def _told(answer, name=""):
    """All that an answer says, but for what is of each request, and the name in its address."""
    own = ("date", "x-trace-id")
    headers = {word: text for word, text in answer.headers.items() if word not in (*own, "etag")}
    headers.pop("content-length", None)  # pages and problems repeat the name
    text = answer.text.replace(answer.headers.get("x-trace-id", "-"), "")
    return answer.status_code, headers, text.replace(name, "") if name else text


def test_what_is_hidden_costs_the_same_reads_whether_it_was_renamed_or_never_was(
    multi, monkeypatch
):
    """Nobody learns from the time of an answer that a private dataset had a name."""
    entry = multi.keep(ten_rows(), "alice/first", Visibility.PRIVATE)
    multi.node.stores.rename_dataset(entry.id, DatasetAlias.parse("alice/second"))
    asked = []
    engine = multi.node.stores.engine
    note = lambda _db, _cursor, text, *_: asked.append(text)  # noqa: E731
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        with multi.http() as client:

            def are_same() -> bool:
                """What runs beside the requests reads now and then, too."""
                seen = []
                for name in ("first", "second", "never"):
                    asked.clear()
                    assert client.get(f"/alice/{name}/refs/head").status_code == 404
                    seen.append([text for text in asked if "FROM datasets" in text])
                return seen[0] == seen[1] == seen[2] and len(seen[0]) == 2

            wait_until(are_same, "the same two reads for each name")
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def test_the_page_of_a_former_name_links_to_the_dataset(service, client, entry):
    client.put("/city/name", json={"name": "town"})
    answer = client.get("/city", headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert '<a href="/town">town</a>' in answer.text


def test_commands_say_the_name_of_today(service, client, entry, tmp_path):
    client.put("/city/name", json={"name": "town"})
    env = {"ODF_NODE_TOKEN": service.token()}
    simple, smart = address(service), f"odf+{address(service)}"
    for words in (
        ("read", simple),
        ("describe", simple, "--license", "MIT"),
        ("dataset", "visibility", simple, "private"),
        ("pull", simple, str(tmp_path / "simple")),
        ("pull", smart, str(tmp_path / "smart")),
        ("verify", simple),
        ("watch", simple),
    ):
        done = CliRunner().invoke(main, words, env=env)
        assert done.exit_code == 3, (words, done.output)
        assert "renamed to town" in done.stderr, words


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
    assert run(service, "append", address(service), str(manifest)).exit_code == 2
