"""Queries over HTTP: what is asked, what is answered, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from processes import with_work
from servers import wait_until
from service import SCHEMA, Chain, Service, described, parquet_rows, seeded, serving

from odf_protocol.metadata.events import AddPushSource, SetDataSchema
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.sources import MergeStrategySnapshot, ReadStepNdJson
from odf_storage.stores.ports.values import DatasetEntry, Visibility

KEYED = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategySnapshot(primary_key=("city",)),
)
ROWS = 'select "offset", city from city order by "offset"'


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("query") / "node", turn_wait_s=60) as service:
        yield service


@pytest.fixture(scope="module")
def city() -> Chain:
    chain = seeded().add(described(), KEYED, SetDataSchema(schema=SCHEMA))
    return chain.add_rows(3).add_rows(4)


@pytest.fixture(scope="module")
def entry(service: Service, city: Chain) -> DatasetEntry:
    return service.keep(city, "kamu/city", Visibility.PUBLIC)


@pytest.fixture
def client(service: Service, entry: DatasetEntry) -> Any:
    with service.http() as client:
        yield client


def ask(client: httpx.Client, query: str, **more: Any) -> Any:
    answer = client.post("/query", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: httpx.Client, query: str, status: int = 400, **more: Any) -> str:
    answer = client.post("/query", json={"query": query, **more})
    assert answer.status_code == status, answer.text
    return str(answer.json()["message"])


@pytest.mark.scenario("Q04")
def test_a_query_alone_is_answered_by_its_rows_and_nothing_else(client):
    assert ask(client, 'select city, population from city where "offset" > 4') == {
        "output": {
            "data": [{"city": "c5", "population": 500}, {"city": "c6", "population": 600}],
            "dataFormat": "JsonAoS",
        }
    }


@pytest.mark.scenario("Q05")
def test_the_echo_has_all_defaults_and_exactly_the_datasets_used(client, entry, city):
    answer = ask(client, 'select "offset" from "kamu/city"', include=["input", "schema"])
    assert answer["input"] == {
        "query": 'select "offset" from "kamu/city"',
        "queryDialect": "SqlDataFusion",
        "dataFormat": "JsonAoS",
        "include": ["Input", "Schema"],
        "schemaFormat": "ArrowJson",
        "datasets": [{"id": str(entry.id), "alias": "kamu/city", "blockHash": str(city.head)}],
        "skip": 0,
        "limit": 100,
    }
    [field] = answer["output"]["schema"]["fields"]
    assert (field["name"], field["data_type"], field["nullable"]) == ("offset", "Int64", False)


def test_the_schema_of_an_answer_says_required_where_the_dataset_does(client):
    answer = ask(client, 'select * from "kamu/city"', schemaFormat="ArrowJson")
    said = client.get("/city/metadata", params={"include": "schema"}).json()["output"]
    nullable = [
        {field["name"]: field["nullable"] for field in schema["fields"]}
        for schema in (answer["output"]["schema"], said["schema"])
    ]
    assert nullable[0] == nullable[1]
    assert set(nullable[0].values()) == {True, False}


def test_a_dataset_that_is_only_mentioned_is_not_among_the_inputs(client):
    answer = ask(client, "select 1 as \"kamu/city\", 'city' as b", include=["Input"])
    assert answer["input"]["datasets"] == []


@pytest.fixture(scope="module")
def mixed(service: Service) -> str:
    """A dataset whose name and column are not in lower case."""
    schema = DataSchema(
        fields=tuple(
            replace(field, name="Id") if field.name == "city" else field for field in SCHEMA.fields
        )
    )
    old = pq.read_table(io.BytesIO(parquet_rows(0, 3)))
    rows = io.BytesIO()
    pq.write_table(old.rename_columns(["Id" if n == "city" else n for n in old.column_names]), rows)
    chain = seeded(b"m" * 32).add(described(), SetDataSchema(schema=schema))
    service.keep(chain.add_slice(rows.getvalue(), 3), "kamu/Mixed", Visibility.PUBLIC)
    return "Mixed"


def test_names_without_quotes_are_taken_as_they_are_written(client, mixed):
    rows = [{"Id": "c0"}, {"Id": "c1"}, {"Id": "c2"}]
    for query in (
        "select Id from Mixed order by Id",
        'select "Id" from "Mixed" order by "Id"',
        "SELECT m.Id FROM mixed AS m ORDER BY m.Id",
    ):
        assert ask(client, query)["output"]["data"] == rows
    assert ask(client, "select Count(*) as N from Mixed")["output"]["data"] == [{"N": 3}]


def test_a_name_in_another_case_is_refused_with_the_nearest_one(client, mixed):
    for query in ("select ID from Mixed", "select m.id from Mixed as m"):
        said = refused(client, query)
        assert 'Did you mean "Id"?' in said
        assert "datafusion." not in said
    assert 'Did you mean "population"?' in refused(client, "select populaton from Mixed")
    assert "Did you mean" not in refused(client, "select zzzzzz from Mixed")


def test_intervals_are_texts(client):
    query = "select interval '1 month 2 days 3 hours 4.5 seconds' as a, 1 as b"
    row = {"a": "1 mons 2 days 3 hours 4.500000000 secs", "b": 1}
    assert ask(client, query)["output"]["data"] == [row]


@pytest.mark.scenario("Q07")
def test_an_unknown_dataset_among_the_pins_is_404(client):
    nobody = str(seeded().id)
    pin = {"id": nobody, "alias": "city"}
    assert refused(client, ROWS, 404, datasets=[pin]) == f"Dataset not found: {nobody}"


@pytest.mark.scenario("Q08")
def test_an_unknown_block_among_the_pins_is_404_and_says_why(client, entry):
    pin = {"id": str(entry.id), "alias": "city", "blockHash": "f1620" + "ab" * 32}
    assert "compacted or reset" in refused(client, ROWS, 404, datasets=[pin])


def test_pins_give_the_same_rows_also_after_new_commits(client, entry, city):
    then = str(next(block.hash for block in city.blocks if block.sequence_number == 4))
    pin = {"id": str(entry.id), "alias": "mine/city", "blockHash": then}
    answer = ask(client, 'select count(*) as n from "mine/city"', datasets=[pin], include=["Input"])
    assert answer["output"]["data"] == [{"n": 3}]
    assert answer["input"]["datasets"] == [pin]


@pytest.mark.parametrize(
    ("query", "begin"),
    [
        pytest.param(
            "select ???",
            "sql parser error: Expected: end of statement, found: ? at Line: 1, Column: 9",
            id="Q16",
        ),
        pytest.param("select offzet from city", "No field named offzet.", id="Q17"),
        pytest.param("select foobar(1)", "Invalid function 'foobar'.", id="Q18"),
        pytest.param(
            "select * from does_not_exist",
            "table 'kamu.kamu.does_not_exist' not found",
            id="Q19",
        ),
    ],
)
def test_what_is_wrong_with_a_query_is_said_in_the_words_of_its_engine(client, query, begin):
    assert refused(client, query).startswith(begin)


@pytest.mark.scenario("Q20")
def test_a_link_is_a_query_too(client):
    first = client.get("/query", params={"query": ROWS, "limit": 1}).json()["output"]["data"]
    second = client.get("/query", params={"query": ROWS, "skip": 1, "limit": 1}).json()
    assert first == [{"offset": 0, "city": "c0"}]
    assert second["output"]["data"] == [{"offset": 1, "city": "c1"}]


@pytest.mark.scenario("Q21")
@pytest.mark.parametrize(
    ("form", "name", "data"),
    [
        ("json-aos", "JsonAoS", [{"offset": 0, "city": "c0"}, {"offset": 1, "city": "c1"}]),
        ("json-soa", "JsonSoA", {"offset": [0, 1], "city": ["c0", "c1"]}),
        ("jsonaoa", "JsonAoA", [[0, "c0"], [1, "c1"]]),
    ],
)
def test_data_has_the_shape_that_is_asked_for(client, form, name, data):
    output = ask(client, ROWS, limit=2, dataFormat=form)["output"]
    assert output == {"data": data, "dataFormat": name}


@pytest.mark.parametrize(
    ("form", "data"), [("JsonAoS", []), ("JsonAoA", []), ("JsonSoA", {"a": []})]
)
def test_no_rows_are_an_empty_value(client, form, data):
    assert ask(client, "select 1 as a where false", dataFormat=form)["output"]["data"] == data


@pytest.mark.scenario("Q22")
@pytest.mark.parametrize(
    ("form", "name", "begin"),
    [
        ("odf-json", "OdfJson", '{"fields":[{"name":"offset","type":{"kind":"Int64"'),
        ("odf-yaml", "OdfYaml", '"fields:'),
        ("ArrowJson", "ArrowJson", '{"fields":[{"name":"offset","data_type":"Int64"'),
        ("parquet", "Parquet", '"message arrow_schema {\\n  REQUIRED INT64 offset;'),
        ("parquet-json", "ParquetJson", '{"name":"arrow_schema"'),
    ],
)
def test_a_schema_format_includes_the_schema(client, form, name, begin):
    output = ask(client, 'select "offset" from city', schemaFormat=form)["output"]
    assert output["schemaFormat"] == name
    assert json.dumps(output["schema"], separators=(",", ":")).startswith(begin)


def test_accept_asks_for_rows_alone_which_name_their_inputs(client, entry, city):
    def got(media_type: str) -> httpx.Response:
        answer = client.post("/query", json={"query": ROWS}, headers={"accept": media_type})
        assert answer.headers["content-type"].startswith(media_type)
        [pin] = json.loads(answer.headers["odf-inputs"])
        assert pin == {"id": str(entry.id), "alias": "city", "blockHash": str(city.head)}
        return answer

    rows = list(csv.DictReader(io.StringIO(got("text/csv").text)))
    assert [row["city"] for row in rows] == [f"c{n}" for n in range(7)]
    parquet = pq.read_table(io.BytesIO(got("application/vnd.apache.parquet").content))
    arrow = pa.ipc.open_stream(got("application/vnd.apache.arrow.stream").content).read_all()
    assert parquet.to_pylist() == arrow.to_pylist()
    assert len(got("application/x-ndjson").text.splitlines()) == 7


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"query": "select 1", "limt": 1}', {}, 422),
        (b'{"query": 1}', {}, 422),
        (b"{}", {}, 422),
        (b"[]", {}, 400),
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b'{"query": "select 1"}', {"content-type": "text/plain"}, 415),
        (b'"' + b" " * (2 * 1024 * 1024) + b'"', {}, 413),
        (b'{"query": "select 1", "limit": -1}', {}, 400),
        (b'{"query": "select 1", "limit": 1000001}', {}, 413),
        (b'{"query": "select 1", "dataFormat": "xml"}', {}, 400),
        (b'{"query": "select 1", "include": ["Everything"]}', {}, 400),
        (b'{"query": "select 1", "queryDialect": "SqlFlink"}', {}, 400),
        (b'{"query": "select 1", "queryDialect": "SqlSpark"}', {}, 401),
        (b'{"query": "select 1", "include": ["Input"], "dataFormat": "csv"}', {}, 400),
        (b'{"query": "select 1", "datasets": [{"id": "x", "alias": "a@state"}]}', {}, 400),
    ],
)
def test_requests_of_another_form_are_refused(client, body, headers, status):
    headers = {"content-type": "application/json", **headers}
    assert client.post("/query", content=body, headers=headers).status_code == status


def test_a_link_with_an_unknown_parameter_is_refused(client):
    assert client.get("/query", params={"query": "select 1", "limt": 1}).status_code == 400


def test_a_dataset_that_may_not_be_read_is_as_unknown_as_none(service, client):
    secret = service.keep(
        seeded().add(SetDataSchema(schema=SCHEMA)), "kamu/secret", Visibility.PRIVATE
    )
    missing = refused(client, "select * from missing").replace("missing", "secret")
    assert refused(client, "select * from secret") == missing
    pin = {"id": str(secret.id), "alias": "secret"}
    assert refused(client, "select * from secret", 404, datasets=[pin]).startswith("Dataset not")
    with service.http(service.token("kamu")) as owner:
        assert ask(owner, "select * from secret")["output"]["data"] == []


def test_a_bad_token_is_told(service, entry):
    with service.http("nonsense") as stranger:
        assert stranger.get("/query", params={"query": ROWS}).status_code == 401


def test_two_datasets_are_joined_each_at_its_head(service, client):
    service.keep(seeded().add(SetDataSchema(schema=SCHEMA)).add_rows(2), "kamu/other")
    joined = 'select a.city from "kamu/city" a join other b on a."offset" = b."offset"'
    answer = ask(client, f"{joined} order by 1", include=["Input"])
    assert answer["output"]["data"] == [{"city": "c0"}, {"city": "c1"}]
    assert [pin["alias"] for pin in answer["input"]["datasets"]] == ["kamu/city", "other"]


def test_askers_at_once_are_all_answered(client):
    def one(number: int) -> Any:
        return ask(client, f'select city from city where "offset" = {number % 7}')

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(16)))
    assert [each["output"]["data"] for each in found] == [
        [{"city": f"c{n % 7}"}] for n in range(16)
    ]


def test_who_finds_no_process_free_is_told_to_come_again(tmp_path: Path):
    slow = "select count(*) from generate_series(1, 100000000000)"
    limits = {"query_processes": 1, "turn_wait_s": 0.2, "query_time_s": 600}
    with serving(tmp_path / "node", **limits) as busy, busy.http() as client:
        ask(client, "select 1")
        wait_until(lambda: not _processes(busy), "the end of the first query")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.post, "/query", json={"query": slow})
            wait_until(lambda: _confined(busy), "the process of the query")
            answer = client.post("/query", json={"query": "select 1"})
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) > 0
            for each in _processes(busy):
                os.kill(each, signal.SIGKILL)
            assert waiting.result().status_code == 413
        wait_until(lambda: not _processes(busy), "the end of the query")
        assert ask(client, "select 1 as a")["output"]["data"] == [{"a": 1}]


def _processes(service: Service) -> list[int]:
    return with_work(service.node.queries.nursery.pid)


def _confined(service: Service) -> bool:
    """Whether the process of a query has become one: killed before, it would be another failure."""
    states = (Path(f"/proc/{each}/status") for each in _processes(service))
    return any("Seccomp:\t2" in state.read_text() for state in states)
