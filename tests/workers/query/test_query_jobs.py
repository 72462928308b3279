"""Query jobs: what Spark computes of pinned datasets, what is kept of it, and what is refused."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from service import serving
from tests.workers.datasets import worker_of
from tests.workers.derivatives import add_rows, commit, root
from throwaway import throwaway_stores

from odf_node.cli.main import main
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategySnapshot, ReadStepNdJson
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import query_job
from odf_storage.datasets.job_payloads.query_job import QueriedDataset, QueryPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.query.messages import Form, TableView
from odf_storage.datasets.query.tables import QueryResults
from odf_storage.stores.ports.errors import KeyNotFound
from odf_storage.stores.ports.values import AccountId, Failed, JobId, Succeeded

pytestmark = pytest.mark.spark
DAY = "2024-01-01T00:00:00Z"
KEYED = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategySnapshot(primary_key=("city",)),
)


class Asking:
    """A worker, and the account that asks."""

    owner = AccountId("did:odf:asker")

    def __init__(self, stores: Stores, worker: Any) -> None:
        self.stores, self.worker = stores, worker

    def run(self, query: str, *datasets: Dataset, **more: Any) -> tuple[JobId, Any]:
        named = tuple(
            QueriedDataset(
                alias=str(one.entry.alias),
                id=str(one.id),
                block_hash=str(one.head()),
                views=tuple(view for view in TableView if f'@{view}"' in query),
            )
            for one in datasets
        )
        asked = {"skip": 0, "limit": None, "form": Form.PARQUET, **more}
        payload = QueryPayload(query=query, datasets=named, owner=self.owner, **asked)
        job = self.stores.jobs.submit(query_job.spec_of(payload, self.owner))
        self.worker.work(once=True)
        return job, self.stores.jobs.get(job).outcome

    def rows(self, query: str, *datasets: Dataset, **more: Any) -> list[dict[str, Any]]:
        job, outcome = self.run(query, *datasets, **more)
        assert isinstance(outcome, Succeeded), outcome
        with QueryResults(self.stores.projections).open(self.owner, job) as stream:
            return pq.read_table(stream).to_pylist()

    def refused(self, query: str, *datasets: Dataset) -> Failed:
        _, outcome = self.run(query, *datasets)
        assert isinstance(outcome, Failed), outcome
        return outcome


@pytest.fixture(scope="module")
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def asking(spark: Any, stores: Stores, tmp_path: Path) -> Asking:
    return Asking(stores, worker_of(spark, stores, tmp_path))


@pytest.fixture(scope="module")
def cities(stores: Stores, tmp_path_factory: Any) -> Dataset:
    made = root(stores, "cities")
    commit(made, KEYED, at=5)
    folder = tmp_path_factory.mktemp("rows")
    add_rows(stores, made, [(DAY, "a", 1), (DAY, "b", 2)], folder, at=10)
    add_rows(stores, made, [(DAY, "a", 3), (DAY, "b", 2)], folder, at=20, ops=[0, 1])
    return made


def test_rows_come_in_the_order_that_was_asked_for_and_the_receipt_names_the_blocks(asking, cities):
    query = 'select city, n from "kamu/cities" order by n desc, "offset"'
    job, outcome = asking.run(query, cities, skip=1, limit=2)
    receipt = query_job.receipt_of(outcome.result)
    assert (receipt.job, receipt.rows) == (job, 2)
    pin = {"id": str(cities.id), "alias": "kamu/cities", "blockHash": str(cities.head())}
    assert receipt.input["datasets"] == [pin]
    assert receipt.input["queryDialect"] == "SqlSpark"
    assert [field["name"] for field in receipt.schema["fields"]] == ["city", "n"]
    with QueryResults(asking.stores.projections).open(asking.owner, job) as stream:
        raw = stream.read()
    assert len(raw) == receipt.bytes
    assert asking.rows(query, cities, skip=1, limit=2) == [
        {"city": "b", "n": 2},
        {"city": "b", "n": 2},
    ]


def test_a_dataset_that_is_only_mentioned_is_not_among_the_inputs(asking, cities, stores, tmp_path):
    other = root(stores, "other")
    add_rows(stores, other, [(DAY, "x", 1)], tmp_path, at=10)
    query = 'with "kamu/other" as (select 1 as x) select x, \'a\' as b from "kamu/other"'
    _, outcome = asking.run(query, cities, other)
    assert outcome.result["input"]["datasets"] == []


def test_state_and_facts_are_those_of_every_other_query(asking, cities):
    state = asking.rows('select city, n from "kamu/cities@state"', cities)
    assert state == [{"city": "a", "n": 3}]
    facts = asking.rows('select city, n from "kamu/cities@facts" order by n', cities)
    assert facts == [{"city": "a", "n": 1}, {"city": "a", "n": 3}]


def test_rows_are_those_of_the_pinned_block_also_after_new_commits(asking, stores, tmp_path):
    made = root(stores, "growing")
    add_rows(stores, made, [(DAY, "a", 1)], tmp_path, at=10)
    then = made.head()
    add_rows(stores, made, [(DAY, "b", 2)], tmp_path, at=20)
    named = QueriedDataset(alias="kamu/growing", id=str(made.id), block_hash=str(then), views=())
    payload = QueryPayload(
        query='select count(*) as n from "kamu/growing"',
        datasets=(named,),
        skip=0,
        limit=None,
        form=Form.NDJSON,
        owner=asking.owner,
    )
    job = stores.jobs.submit(query_job.spec_of(payload, asking.owner))
    asking.worker.work(once=True)
    with QueryResults(stores.projections).open(asking.owner, job) as stream:
        assert stream.read() == b'{"n":1}\n'


def test_a_dataset_without_rows_is_an_empty_table(asking, stores):
    empty = root(stores, "empty")
    assert asking.rows('select count(*) as n from "kamu/empty"', empty) == [{"n": 0}]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ('select n / 2 as half from "kamu/cities"', "`a div b`"),
        ('select (select max(n) / count(*) from "kamu/cities") as x', "`a div b`"),
        ("select * from parquet.`/etc/passwd`", "parquet"),
        ('create table x as select * from "kamu/cities"', "only SELECT"),
        ("select reflect('java.lang.System', 'getenv', 'HOME') as x", "not available"),
        ("select 1 as a, 2 as a", "two columns"),
        ('select n from "kamu/nobody"', "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_what_would_mean_something_else_or_may_not_be_is_refused(asking, cities, query, said):
    failed = asking.refused(query, cities)
    assert failed.branch == "BadInput"
    assert said in failed.message


def test_a_cast_says_that_a_fraction_is_meant(asking, cities):
    query = 'select cast(3 as double) / 2 as x, 3 div 2 as y from "kamu/cities" limit 1'
    assert asking.rows(query, cities) == [{"x": 1.5, "y": 1}]


def test_quotes_of_another_query_of_the_same_worker_mean_what_they_did(asking, cities, spark):
    """The quotes of readers are a setting of their own sessions alone."""
    asking.rows('select "city" from "kamu/cities"', cities)
    [row] = spark.sql('select "city" as x').collect()
    assert row.x == "city"


def test_a_result_that_is_too_long_is_not_kept(asking, cities):
    context = replace(
        asking.worker.context, queries=replace(asking.worker.context.queries, result_bytes=10)
    )
    asking.worker.context = context
    job, outcome = asking.run('select city from "kamu/cities"', cities)
    assert (outcome.error, outcome.facts["setting"]) == (
        "QueryResultTooLong",
        "ODF_WORKER_QUERY_RESULT_BYTES",
    )
    with pytest.raises(KeyNotFound):
        QueryResults(asking.stores.projections).open(asking.owner, job)


def test_an_account_keeps_its_newest_results(asking, cities):
    asking.worker.context = replace(
        asking.worker.context, queries=replace(asking.worker.context.queries, results=1)
    )
    first, _ = asking.run("select 1 as x", cities)
    second, _ = asking.run("select 2 as x", cities)
    results = QueryResults(asking.stores.projections)
    with pytest.raises(KeyNotFound):
        results.open(asking.owner, first)
    results.open(asking.owner, second).close()


def test_the_command_waits_for_the_job_and_prints_its_rows(spark, tmp_path):
    with serving(tmp_path / "node", poll_s=0.05) as service:
        stores = service.node.stores
        made = root(stores, "towns")
        add_rows(stores, made, [(DAY, "a", 1), (DAY, "b", 2)], tmp_path, at=10)
        (tmp_path / "scratch").mkdir()
        worker = worker_of(spark, stores, tmp_path / "scratch")
        thread = threading.Thread(target=worker.work, daemon=True)
        thread.start()
        try:
            query = "select city, n from towns order by n desc"
            asked = ["sql", query, "--node", service.url, "--background"]
            token = ["--token", service.token()]
            table = CliRunner().invoke(main, [*asked, *token])
            assert table.stdout.split("\n")[2:4] == ["b     2", "a     1"], table.output
            out = tmp_path / "rows.parquet"
            found = CliRunner().invoke(
                main, [*asked, *token, "--format", "parquet", "-o", str(out)]
            )
            assert found.exit_code == 0, found.output
            assert pq.read_table(out).to_pydict() == {"city": ["b", "a"], "n": [2, 1]}
            wrong = CliRunner().invoke(
                main, ["sql", "select 7 / 2", "--node", service.url, "--background", *token]
            )
            assert wrong.exit_code != 0
            assert "`a div b`" in wrong.output
        finally:
            worker.stop.set()
            thread.join()
