"""Queries as jobs: who may submit them, what is pinned, who reads the rows, and for how long.

The worker is played: what Spark computes is tried beside the worker.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from service import SCHEMA, Service, described, seeded, serving

from odf_node.cli.main import main
from odf_node.service.accounts.accounts import create_token, ensure_account
from odf_node.service.query.background import BackgroundQueries
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import SetDataSchema
from odf_storage.datasets.job_payloads import query_job
from odf_storage.datasets.job_payloads.query_job import QueryReceipt
from odf_storage.datasets.query.tables import QueryResults
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.values import DatasetEntry, Reach, Scope, Succeeded, Visibility

ROWS = b'{"city":"a"}\n'
QUERY = 'select city from "kamu/city"'
SPARK = {"query": QUERY, "queryDialect": "SqlSpark"}
ASYNC = {"prefer": "respond-async"}


class Clock:
    """The system's, and so many seconds."""

    ahead_s = 0

    def __call__(self) -> Instant:
        return Instant(system_clock().ns + self.ahead_s * 1_000_000_000)


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any, clock: Clock) -> Any:
    data = tmp_path_factory.mktemp("background") / "node"
    limits = {"max_waiting_account": 3, "ingest_wait_s": 0.2, "query_result_keep_s": 100}
    with serving(data, clock=clock, tenancy="multi", **limits) as service:
        yield service


@pytest.fixture(scope="module")
def entry(service: Service) -> DatasetEntry:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(3)
    return service.keep(chain, "kamu/city", Visibility.PRIVATE)


@pytest.fixture
def client(service: Service, entry: DatasetEntry) -> Any:
    with service.http(service.token()) as client:
        yield client


@pytest.fixture
def stranger(service: Service) -> Any:
    with service.http(service.token("stranger")) as client:
        yield client


def submitted(client: Any, **more: Any) -> str:
    answer = client.post("/query", json={**SPARK, **more}, headers=ASYNC)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"].endswith(f"/jobs/{answer.json()['job']}")
    return str(answer.json()["job"])


def answered(service: Service) -> query_job.QueryPayload:
    """Do what a worker does with the next query."""
    stores = service.node.stores
    job = stores.jobs.claim("w", [query_job.KIND], lease=timedelta(seconds=60))
    assert job is not None
    payload = query_job.payload_of(job.spec.payload)
    QueryResults(stores.projections).put(payload.owner, str(job.id), [ROWS], most=5)
    receipt = QueryReceipt(
        job=str(job.id),
        rows=1,
        bytes=len(ROWS),
        schema={"fields": [{"name": "city", "type": {"kind": "String"}}]},
        input={
            "dataFormat": payload.form,
            "datasets": [{"id": each.id, "alias": each.alias} for each in payload.datasets],
        },
        engine="spark",
        engine_version="0",
    )
    stores.jobs.finish(job.id, "w", Succeeded(query_job.to_json(receipt)))
    return payload


def test_a_query_for_spark_is_a_job_with_its_datasets_as_of_now(client, service, entry):
    job = submitted(client, limit=7, dataFormat="ndjson")
    assert client.get(f"/jobs/{job}").json()["status"] == "waiting"
    assert client.get(f"/jobs/{job}/rows").status_code == 409
    payload = answered(service)
    [named] = payload.datasets
    head = service.node.stores.refs.head(entry.id)
    assert (named.id, named.alias, named.block_hash) == (str(entry.id), "kamu/city", str(head))
    assert (payload.limit, payload.form) == (7, "ndjson")
    assert client.get(f"/jobs/{job}").json()["result"]["rows"] == 1
    rows = client.get(f"/jobs/{job}/rows")
    assert (rows.status_code, rows.content) == (200, ROWS)
    assert rows.headers["content-type"] == "application/x-ndjson"


def test_nobody_else_sees_the_job_its_rows_or_ends_it(client, stranger, service):
    job = submitted(client)
    for method, path in (("GET", ""), ("GET", "/rows"), ("GET", "/events"), ("DELETE", "")):
        assert stranger.request(method, f"/jobs/{job}{path}").status_code == 404
    with service.http() as nobody:
        assert nobody.get(f"/jobs/{job}").status_code == 404
    answered(service)
    assert stranger.get(f"/jobs/{job}/rows").status_code == 404
    assert client.get(f"/jobs/{job}/rows").status_code == 200


def test_a_dataset_that_the_asker_may_not_read_is_no_table_of_the_job(stranger, service):
    submitted(stranger)
    assert answered(service).datasets == ()


def test_rows_are_given_only_while_the_inputs_may_be_read(client, stranger, service, entry):
    service.node.stores.set_visibility(entry.id, Visibility.PUBLIC)
    pin = {"id": str(entry.id), "alias": "kamu/city"}
    job = submitted(stranger, datasets=[pin])
    assert [each.id for each in answered(service).datasets] == [pin["id"]]
    assert stranger.get(f"/jobs/{job}/rows").status_code == 200
    service.node.stores.set_visibility(entry.id, Visibility.PRIVATE)
    assert stranger.get(f"/jobs/{job}/rows").status_code == 404


def test_a_job_that_waits_can_be_cancelled_by_the_asker(client, service):
    job = submitted(client)
    assert client.delete(f"/jobs/{job}").json()["status"] == "cancelled"
    claimed = service.node.stores.jobs.claim("w", [query_job.KIND], lease=timedelta(seconds=1))
    assert claimed is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"query": QUERY}, "SqlSpark"),
        ({**SPARK, "include": ["Proof"]}, "no proof"),
        ({**SPARK, "dataFormat": "JsonAoS"}, "file of their own"),
        ({**SPARK, "schemaFormat": "Parquet"}, "OdfJson"),
        ({**SPARK, "limit": -1}, "below zero"),
    ],
)
def test_what_cannot_be_a_job_is_refused_with_a_reason(client, asked, said):
    answer = client.post("/query", json=asked, headers=ASYNC)
    assert answer.status_code == 400
    assert said in answer.json()["message"]


def test_a_query_as_a_job_takes_an_account(service, entry):
    with service.http() as nobody:
        assert nobody.post("/query", json=SPARK, headers=ASYNC).status_code == 401


def test_no_more_queries_of_an_account_wait_than_may(client, service):
    jobs = [submitted(client) for _ in range(3)]
    refused = client.post("/query", json=SPARK, headers=ASYNC)
    assert refused.status_code == 429
    assert "ODF_NODE_MAX_WAITING_ACCOUNT" in refused.json()["detail"]
    for job in jobs:
        client.delete(f"/jobs/{job}")


def test_rows_are_kept_for_their_time_and_then_collected(client, service, clock):
    job = submitted(client)
    answered(service)
    assert service.node.background_queries.collect() == 0
    clock.ahead_s = 101
    try:
        gone = client.get(f"/jobs/{job}/rows")
        assert gone.status_code == 410
        assert "ask again" in gone.json()["message"]
        queries: BackgroundQueries = service.node.background_queries
        assert queries.collect() > 0
        assert queries.collect() == 0
    finally:
        clock.ahead_s = 0
    assert client.get(f"/jobs/{job}/rows").status_code == 410


def test_the_command_submits_waits_and_fetches_the_rows(service, entry, tmp_path):
    token = ["--token", service.token()]
    asked = ["sql", QUERY, "--node", service.url, "--background", *token]
    found = CliRunner().invoke(main, [*asked, "--no-wait", "--format", "ndjson"])
    assert found.exit_code == 0, found.output
    job = found.output.split()[1]
    answered(service)
    shown = CliRunner().invoke(main, ["job", "show", service.url, job, *token])
    assert '"engine": "spark"' in shown.output
    rows = CliRunner().invoke(main, ["job", "rows", service.url, job, *token])
    assert rows.stdout_bytes == ROWS


def test_the_list_of_a_node_has_ones_own_queries(client, stranger, service):
    job = submitted(client)
    answered(service)
    foreign = submitted(stranger, query="select 1 as x")
    page = client.get("/jobs", params={"limit": 1}).json()
    [own] = page["jobs"]
    assert (own["id"], own["query"], own["status"]) == (job, QUERY, "succeeded")
    kept = Instant.parse(own["rowsUntil"]).ns - Instant.parse(own["finishedAt"]).ns
    assert kept == 100 * 1_000_000_000
    older = client.get("/jobs", params={"after": page["next"]}).json()["jobs"]
    assert not {job, foreign} & {each["id"] for each in older}
    waiting = stranger.get("/jobs", params={"status": "waiting"}).json()["jobs"]
    assert foreign in [each["id"] for each in waiting]
    assert "rowsUntil" not in waiting[0]
    assert client.get("/jobs", params={"status": "lost"}).status_code == 400
    with service.http() as nobody:
        assert nobody.get("/jobs").status_code == 401
    listed = CliRunner().invoke(main, ["job", "list", service.url, "--token", service.token()])
    assert job in listed.output
    assert QUERY in listed.output
    assert foreign not in listed.output
    stranger.delete(f"/jobs/{foreign}")


def test_the_command_asks_as_of_a_block_of_the_one_dataset_it_names(service, entry):
    head = str(service.node.stores.refs.head(entry.id))
    words = ["--node", service.url, "--background", "--no-wait", "--token", service.token()]
    asked = CliRunner().invoke(main, ["sql", QUERY, *words, "--at", head])
    assert asked.exit_code == 0, asked.output
    [named] = answered(service).datasets
    assert (named.id, named.block_hash) == (str(entry.id), head)
    unknown = CliRunner().invoke(main, ["sql", QUERY, *words, "--at", "f1620" + "0" * 64])
    assert "Block not found" in unknown.output
    several = CliRunner().invoke(main, ["sql", "select 1 as x", *words, "--at", head])
    assert "--at is for a query of one dataset, not of 0" in several.output


def test_lesser_tokens_neither_list_nor_end_the_queries_of_their_account(client, service, entry):
    """Queries are over all that the account reads, so a token for a part of it learns nothing."""
    job = submitted(client)
    accounts = service.node.stores.accounts
    owner = ensure_account(accounts, "kamu", os.urandom)
    given = {"scopes": list(Scope), "dataset": entry.id, "reach": Reach.DATASET}
    narrow = create_token(accounts, owner, os.urandom, service.node.clock(), **given)
    for token, listed in ((service.token("kamu", Scope.READ), 200), (str(narrow), 403)):
        with service.http(token) as lesser:
            assert lesser.get("/jobs").status_code == listed
            assert lesser.delete(f"/jobs/{job}").status_code == 403
    assert client.get(f"/jobs/{job}").json()["status"] == "waiting"
    assert client.delete(f"/jobs/{job}").status_code == 200
