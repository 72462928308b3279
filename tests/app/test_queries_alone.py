"""`odf-query`: queries by a process that shares with the service its database and bucket alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pytest
from backends import backend_urls
from buckets import log_in
from nodes import RunningNode, served
from servers import free_port
from service import Chain, Service, serving, ten_rows

from odf_storage.stores.ports.values import Visibility

PROGRAM = (sys.executable, "-m", "odf_node.cli.machine.query_service")
COUNT = "select count(*) as n from "


@pytest.fixture(scope="module")
def service(request: Any, tmp_path_factory: Any) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        log_in(patch, request.getfixturevalue("s3"))
        urls = backend_urls("postgres, bucket", request)
        data = tmp_path_factory.mktemp("service") / "data"
        with serving(data, **urls) as service:
            yield service


@pytest.fixture(scope="module")
def chain(service: Service) -> Chain:
    chain = ten_rows()
    service.keep(chain, "kamu/city")
    service.keep(ten_rows(), "kamu/secret", Visibility.PRIVATE)
    return chain


@pytest.fixture(scope="module")
def asked(service: Service, chain: Chain, tmp_path_factory: Any) -> Iterator[RunningNode]:
    settings = service.node.settings
    env = {
        "ODF_STORE_DATABASE_URL": settings.database_url,
        "ODF_STORE_OBJECTS_URL": settings.objects_url,
        "ODF_NODE_FLIGHT_PORT": str(free_port()),
    }
    with served(tmp_path_factory.mktemp("asked") / "data", program=PROGRAM, **env) as node:
        yield node


def answer(node: RunningNode | Service, query: str, token: str | None = None, **more: Any) -> Any:
    with node.http(token) as client:
        return client.post("/query", json={"query": query, **more})


def test_what_the_service_commits_is_asked_of_the_program_beside_it(service, chain, asked):
    assert answer(asked, COUNT + "city").json()["output"]["data"] == [{"n": 10}]
    service.extend(chain, 5)
    assert answer(asked, COUNT + "city").json()["output"]["data"] == [{"n": 15}]
    with asked.http() as client:
        by_link = client.get("/query", params={"query": COUNT + "city", "format": "csv"})
    assert by_link.text.split() == ["n", "15"]


def test_rights_and_tokens_are_those_of_the_service(service, asked):
    assert answer(asked, COUNT + "secret").status_code == 400
    assert answer(asked, COUNT + "secret", service.token("other")).status_code == 400
    assert answer(asked, COUNT + "secret", service.token()).status_code == 200
    assert answer(asked, COUNT + "city", "ka_wrong").status_code == 401


def test_each_of_the_two_verifies_what_the_other_signed(service, asked):
    for one, other in ((asked, service), (service, asked)):
        told = answer(one, COUNT + "city", include=["Proof"]).json()
        told.pop("output")
        with other.http() as client:
            assert client.post("/verify", json=told).json() == {"ok": True}
            told["commitment"]["outputHash"] = told["commitment"]["inputHash"]
            assert client.post("/verify", json=told).status_code == 400


def test_flight_sql_is_served_with_the_tokens_of_the_service(service, asked):
    url = f"grpc://127.0.0.1:{asked.env['ODF_NODE_FLIGHT_PORT']}"
    bearer = {"adbc.flight.sql.authorization_header": f"Bearer {service.token()}"}
    with adbc.connect(url, bearer, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(COUNT + "secret")
        assert cursor.fetch_arrow_table().to_pydict() == {"n": [10]}


def test_nothing_but_queries_is_served(service, asked):
    with asked.http(service.token()) as client:
        assert client.get("/system/health", params={"type": "readiness"}).json() == {"ok": True}
        assert client.get("/city/tail").status_code == 404
        assert client.post("/city/ingest", content=b"{}").status_code == 404
        assert client.get("/datasets").status_code == 404


def test_the_program_refuses_stores_of_its_own(tmp_path: Path) -> None:
    command = [*PROGRAM, "--data", str(tmp_path / "data"), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "set ODF_STORE_DATABASE_URL and ODF_STORE_OBJECTS_URL" in done.stderr
    assert not (tmp_path / "data").exists()
