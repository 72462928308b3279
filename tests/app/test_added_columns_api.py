"""The doors by which a publisher asks that new columns extend the dataset's schema."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from refusals import refusing
from service import seeded, serving
from tests.app.test_publishing_api import SOURCE, post, worker

import odf_node
from odf_node.cli.main import main
from odf_node.service.errors import PROBLEM_TYPE
from odf_protocol.codec.manifests import load_event
from odf_storage.stores.ports.values import Succeeded

DONE = Succeeded({"outcome": "updated", "head": "f1620aa", "rowsRead": 1, "rowsAdded": 1})


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("node")) as service:
        service.keep(seeded().add(load_event(SOURCE)), "kamu/foo")
        yield service


@pytest.fixture
def client(service):
    with service.http(service.token()) as client:
        yield client


def asked(jobs):
    return [job.spec.payload.get("addColumns", False) for job in jobs]


def test_the_route_the_command_and_python_ask_the_worker_to_add_columns(service, client, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(b"city,people\nA,1\n")
    told = {"url": f"{service.url}/foo", "token": service.token()}
    command = ["ingest", str(file), told["url"], "--token", told["token"]]
    with worker(service, lambda _: DONE) as jobs:
        for params in ({}, {"addColumns": "true"}):
            assert post(client, params=params).status_code == 200
        for words in ([], ["--add-columns"]):
            assert CliRunner().invoke(main, [*command, *words]).exit_code == 0
        for add in (False, True):
            odf_node.publish([{"city": "B"}], **told, add_columns=add)
    assert asked(jobs) == [False, True] * 3


def test_python_adds_no_columns_to_a_dataset_that_it_has_just_made(service):
    url, token = f"{service.url}/made", service.token()
    with worker(service, lambda _: DONE) as jobs:
        odf_node.publish([{"city": "B"}], url, token=token, add_columns=True)
    assert asked(jobs) == [False]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"merge": "snapshot", "key": ["city"]}, "merge 'Snapshot' .* which is 'Append'"),
        ({"key": ["city"]}, "key"),
        ({"event_time": "people"}, "event_time 'people' .* which is 'event_time'"),
    ],
)
def test_python_tells_that_a_dataset_has_another_definition_than_the_call(service, given, told):
    """The call would end well, and rows that a snapshot lacks would still stand."""
    url, token, rows = f"{service.url}/foo", service.token(), [{"city": told, "people": 1}]
    with worker(service, lambda _: DONE) as jobs:
        with refusing("UnusableChoice", match=told):
            odf_node.publish(rows, url, token=token, **given)
        odf_node.publish(rows, url, token=token, merge="append", event_time="event_time")
    assert len(jobs) == 1


def test_python_tells_that_a_private_dataset_stays_private(service):
    url, token = f"{service.url}/hidden", service.token()
    with worker(service, lambda _: DONE):
        odf_node.publish([{"city": "B"}], url, token=token)
        with refusing("UnusableChoice", match="visibility 'public' .* which is 'private'"):
            odf_node.publish([{"city": "C"}], url, token=token, visibility="public")


def test_a_frame_without_rows_or_columns_defines_no_dataset(service):
    url, token = f"{service.url}/nothing", service.token()
    for nothing in ({}, {"city": []}):
        with refusing("NotATable"):
            odf_node.publish(nothing, url, token=token)
    with service.http(token) as http:
        assert http.get("/nothing").status_code == 404


def test_a_changelog_adds_no_columns(client):
    answer = post(client, params={"changelog": "true", "addColumns": "true"})
    assert (answer.status_code, answer.json()["type"]) == (400, PROBLEM_TYPE + "ColumnsOfChangelog")
    assert "leave out addColumns" in answer.json()["detail"]


def test_a_request_that_adds_columns_is_another_one_under_its_key(service, client):
    with worker(service, lambda _: DONE):
        assert post(client, key="k", params={"addColumns": "true"}).status_code == 200
        assert post(client, key="k").status_code == 422
