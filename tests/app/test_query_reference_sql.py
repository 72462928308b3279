"""SQL that users of the reference node write, and what they are told to write instead."""

from __future__ import annotations

import pytest
from chain_maker import some_id
from service import SCHEMA, described, seeded, serving

from odf_protocol.metadata.events import AddPushSource, SetDataSchema
from odf_protocol.metadata.sources import MergeStrategySnapshot, ReadStepNdJson
from odf_storage.datasets.query.messages import with_own_names
from odf_storage.stores.ports.values import Visibility

KEYED = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategySnapshot(primary_key=("city",)),
)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("sql"), flight_port=0) as service:
        chain = seeded().add(described(), KEYED, SetDataSchema(schema=SCHEMA)).add_rows(4)
        service.keep(chain, "kamu/cities")
        service.keep(
            seeded().add(SetDataSchema(schema=SCHEMA)).add_rows(1),
            "kamu/hidden",
            Visibility.PRIVATE,
        )
        yield service, str(chain.id)


def rows(node, query, **more):
    with node[0].http() as client:
        return client.post("/query", json={"query": query, **more})


@pytest.mark.parametrize(
    "table",
    [
        "to_table(cities)",
        "to_table('cities')",
        'TO_TABLE ( "cities" )',
        "to_table('{id}')",
        '"{id}"',
        '"{id}@state"',
        "kamu.kamu.cities",
        'kamu.kamu."cities"',
        'kamu.kamu."cities@state"',
        '"kamu"."kamu"."cities"',
        'kamu."cities"',
        '"kamu" . cities',
    ],
)
def test_the_forms_of_the_reference_name_the_dataset(node, table):
    named = table.replace("{id}", node[1])
    state = "state" in table or "to_table" in table.lower()
    ours = rows(node, f'select * from "cities@{"state" if state else "facts"}" order by "offset"')
    theirs = rows(node, f'select t.* from {named} t order by "offset"')
    assert theirs.status_code == 200, theirs.text
    assert theirs.json()["output"] == ours.json()["output"]
    inside = rows(node, f"select 1 as n where exists (select 1 from {named})")
    assert inside.json()["output"]["data"] == [{"n": 1}], inside.text


def test_a_text_is_no_call(node):
    told = rows(
        node, "select 'to_table(cities)' as a, count(*) as n from to_table(cities) -- to_table(x)"
    )
    assert told.json()["output"]["data"][0]["a"] == "to_table(cities)"


@pytest.mark.parametrize(
    "query",
    [
        "/* to_table(a) */ 1",
        "select 'from kamu.kamu.a', \"to_table(a)\" -- to_table(a)",
        "$$to_table(a)$$",
        "E'\\' to_table(a)'",
        "select kamu.a from kamu",
    ],
)
def test_a_query_with_other_forms_of_texts_is_not_changed(query):
    assert with_own_names(query) == query


def test_the_echo_of_a_query_by_id_gives_the_same_rows_again(node):
    query = f'select count(*) as n from "{node[1]}"'
    first = rows(node, query, include=["Input"]).json()
    pins = first["input"]["datasets"]
    assert [pin["alias"] for pin in pins] == [node[1]]
    assert rows(node, query, datasets=pins).json()["output"] == first["output"]
    other = [{**pins[0], "alias": str(some_id("77"))}]
    refused = rows(node, query, datasets=other)
    assert refused.status_code == 400
    assert "an alias that is an id" in refused.json()["message"]


def test_a_hidden_dataset_is_as_missing_by_its_id_as_another(node):
    service = node[0]
    with service.http(service.token()) as owner:
        listed = owner.get("/datasets", params={"search": "hidden"}).json()["datasets"]
    hidden, missing = listed[0]["id"], str(some_id("78"))
    for form in ('"{}"', "to_table('{}')", '"{}@state"'):
        told = [rows(node, f"select * from {form.format(one)}") for one in (hidden, missing)]
        assert {answer.status_code for answer in told} == {400}
        first, second = (answer.json()["message"] for answer in told)
        assert first.replace(hidden, "") == second.replace(missing, "")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("show tables", "GET /datasets"),
        ("describe cities", "limit 0"),
        ("select * from information_schema.tables", "GET /datasets"),
        ("select * from kamu.information_schema.columns", "limit 0"),
        ("select * from anna.flights", '"account/name"'),
        ("select * from to_table('cities', 1)", '"name@state"'),
        ("select * from /* a */ to_table(cities)", '"name@state"'),
        ("select json_get(city, 'a') from cities", "declare columns"),
        ("select city ->> 'a' from cities", "declare columns"),
    ],
)
def test_what_is_not_available_is_answered_with_what_to_write(node, query, told):
    answer = rows(node, query)
    assert answer.status_code == 400
    assert told in answer.json()["message"]
