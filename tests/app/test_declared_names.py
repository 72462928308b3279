"""Columns whose names differ in case only, or show nothing, are warned of when they are defined."""

from __future__ import annotations

import pytest
from service import serving
from tests.app.test_publishing_api import worker

import odf_node
from odf_storage.stores.ports.values import Succeeded

SNAPSHOT = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {read}
      merge: {{kind: Append}}
"""
DECLARED = "{kind: NdJson, schema: {fields: [{name: a, type: String}, {name: A, type: Int64}]}}"
DDL = "{kind: Csv, ddlSchema: ['a string', 'Op string']}"
SAID = "columns `a` and `A` differ in case only"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("node")) as service:
        yield service


@pytest.fixture
def client(service):
    with service.http(service.token()) as client:
        yield client


def created(client, name, read, **params):
    answer = client.post("/datasets", content=SNAPSHOT.format(name=name, read=read), params=params)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def test_the_answer_warns_of_them_and_a_dry_run_does_too(client):
    for name, params in (("dry", {"dryRun": "true"}), ("real", {})):
        (said,) = created(client, name, DECLARED, **params)["warnings"]
        assert said.startswith(SAID)


@pytest.mark.parametrize("name", ["", " "])
def test_a_column_whose_name_shows_nothing_is_warned_of(client, name):
    read = f"{{kind: NdJson, schema: {{fields: [{{name: '{name}', type: String}}]}}}}"
    (said,) = created(client, f"unnamed{len(name)}", read, dryRun="true")["warnings"]
    assert said.startswith(f"a column has the name {name!r}, which shows nothing")


def test_names_of_system_columns_count(client):
    (said,) = created(client, "operations", DDL)["warnings"]
    assert said.startswith("columns `op` and `Op` differ in case only")


def test_names_that_differ_in_more_are_not_warned_of(client):
    for name, read in (("plain", DECLARED.replace("A,", "b,")), ("none", "{kind: NdJson}")):
        assert "warnings" not in created(client, name, read)


def test_an_event_that_declares_columns_is_warned_of(client):
    created(client, "appended", "{kind: NdJson}")
    event = "{kind: AddPushSource, sourceName: other, read: READ, merge: {kind: Append}}"
    answer = client.post("/appended/metadata", content=event.replace("READ", DECLARED))
    assert answer.status_code == 200, answer.text
    assert answer.json()["warnings"][0].startswith(SAID)


def test_python_says_it_of_a_dataset_that_it_makes(service):
    done = Succeeded({"outcome": "updated", "head": "f1620aa"})
    with worker(service, lambda _: done):
        url, token = f"{service.url}/frame", service.token()
        receipt = odf_node.publish([{"a": 1, "A": 2}], url, token=token)
    assert len([note for note in receipt.notes if note.startswith(SAID)]) == 1
