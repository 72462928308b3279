"""Lineage of datasets and columns, private ones hidden; OpenLineage as its own client has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from openlineage.client import event_v2
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    dataset_version_dataset,
    documentation_dataset,
    schema_dataset,
    sql_job,
)
from openlineage.client.serde import Serde
from service import SCHEMA, Service, serving

from odf_node.cli.main import main
from odf_node.service.lineage.lineage_columns import (
    ColumnCell,
    column_cells,
    column_origins,
)
from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetKind,
    Seed,
    SetDataSchema,
    SetInfo,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_storage.stores.ports.values import DatasetEntry, Visibility

NOON = Instant.parse("2050-01-01T12:00:00Z")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, tenancy="multi") as service:
        yield service


def made(
    service: Service,
    name: str,
    *inputs: DatasetEntry,
    sql: str = "select 1",
    hidden: bool = False,
) -> DatasetEntry:
    """A dataset of anna's: a root, or a derivative of these."""
    service.token("anna")
    dataset = DatasetId(name.encode().ljust(32, b"."))
    kind = DatasetKind.Derivative if inputs else DatasetKind.Root
    events: list[Any] = [Seed(dataset_id=dataset, dataset_kind=kind), SetInfo(description=name)]
    if inputs:
        events.append(
            SetTransform(
                inputs=tuple(
                    TransformInput(dataset_ref=DatasetRef(id=one.id), alias=str(one.alias.name))
                    for one in inputs
                ),
                transform=TransformSql(engine="spark", queries=(SqlQueryStep(query=sql),)),
            )
        )
    blocks, _ = author(EMPTY, [*events, SetDataSchema(schema=SCHEMA)], system_time=NOON)
    entry = DatasetEntry(
        dataset,
        DatasetAlias.parse(f"anna/{name}"),
        kind,
        Visibility.PRIVATE if hidden else Visibility.PUBLIC,
        NOON,
    )
    service.node.stores.create_dataset(entry, blocks)
    service.node.stores.registry.set_inputs(dataset, [one.id for one in inputs])
    return entry


@pytest.fixture
def family(service: Service) -> dict[str, DatasetEntry]:
    """root, other (hidden) → mid → top; root → aside (hidden) → behind."""
    root = made(service, "root")
    other = made(service, "other", hidden=True)
    sql = "select r.event_time, upper(r.city) as city, r.population + 1 as population from root r"
    mid = made(service, "mid", root, other, sql=sql)
    top = made(service, "top", mid, sql="select event_time, city from mid")
    aside = made(service, "aside", root, hidden=True)
    behind = made(service, "behind", aside)
    made_ones = (root, other, mid, top, aside, behind)
    return {str(one.alias.name): one for one in made_ones}


def graph(service: Service, name: str, token: str | None = None, **params: Any) -> dict[str, Any]:
    with service.http(token) as client:
        answer = client.get(f"/anna/{name}/lineage", params=params)
    assert answer.status_code == 200
    return dict(answer.json())


def names(found: dict[str, Any]) -> set[str | None]:
    return {one["alias"] for one in found["datasets"]}


def test_inputs_and_users_are_found_and_private_ones_are_hidden(
    service: Service, family: dict[str, DatasetEntry]
) -> None:
    found = graph(service, "mid")
    assert names(found) == {"anna/mid", "anna/root", "anna/top", None}
    [unknown] = [one for one in found["datasets"] if one["alias"] is None]
    assert unknown == {
        "id": str(family["other"].id),
        "alias": None,
        "kind": None,
        "columns": None,
    }
    assert {(e["input"], e["output"]) for e in found["edges"]} == {
        (str(family["root"].id), str(family["mid"].id)),
        (str(family["other"].id), str(family["mid"].id)),
        (str(family["mid"].id), str(family["top"].id)),
    }
    # neither the private user of the root nor what lies behind it
    assert names(graph(service, "root")) == {"anna/root", "anna/mid", "anna/top"}


def test_the_owner_sees_everything(service: Service, family: dict[str, DatasetEntry]) -> None:
    token = service.token("anna")
    assert names(graph(service, "root", token)) == {
        f"anna/{name}" for name in ("root", "mid", "top", "aside", "behind")
    }
    assert names(graph(service, "behind", token)) == {"anna/behind", "anna/aside", "anna/root"}


def test_steps_are_limited(service: Service, family: dict[str, DatasetEntry]) -> None:
    near = graph(service, "root", downstream=1)
    assert (names(near), near["isCut"]) == ({"anna/root", "anna/mid"}, True)
    assert names(graph(service, "top", upstream=0, downstream=0)) == {"anna/top"}
    with service.http() as client:
        assert client.get("/anna/top/lineage", params={"upstream": 1000}).status_code == 400
        assert client.get("/anna/aside/lineage").status_code == 404


def test_columns_are_followed_through_the_sql(
    service: Service, family: dict[str, DatasetEntry]
) -> None:
    found = graph(service, "top", columns="true")
    columns = {one["alias"]: one["columns"] for one in found["datasets"]}
    mid = str(family["mid"].id)
    assert columns["anna/top"]["city"] == [{"dataset": mid, "column": "city"}]
    root = str(family["root"].id)
    assert columns["anna/mid"]["population"] == [{"dataset": root, "column": "population"}]
    assert columns["anna/root"] is None


def test_openlineage_events_are_those_its_own_client_makes(
    service: Service, family: dict[str, DatasetEntry]
) -> None:
    found = graph(service, "mid", format="openlineage", downstream=0)["events"]
    assert [event["schemaURL"].rpartition("/")[2] for event in found] == [
        "JobEvent",
        "DatasetEvent",
    ]
    for event in found:
        assert without_empty(Serde.to_dict(rebuilt(event))) == without_empty(event)
    job = found[0]
    assert job["job"]["facets"]["sql"]["dialect"] == "spark"
    assert [one["name"] for one in job["inputs"]] == [
        str(family["root"].id),
        str(family["other"].id),
    ]
    fields = job["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert fields["city"]["inputFields"] == [
        {"namespace": service.url, "name": str(family["root"].id), "field": "city"}
    ]


def rebuilt(event: dict[str, Any]) -> Any:
    """The same event by the classes of the OpenLineage client, which check what they are given."""
    plain = {"eventTime": event["eventTime"], "producer": event["producer"]}
    if "dataset" in event:
        return event_v2.DatasetEvent(
            **plain, dataset=_dataset(event_v2.StaticDataset, event["dataset"])
        )
    job = event["job"]
    return event_v2.JobEvent(
        **plain,
        job=event_v2.Job(
            namespace=job["namespace"], name=job["name"], facets=_facets(job["facets"])
        ),
        inputs=[_dataset(event_v2.InputDataset, one) for one in event["inputs"]],
        outputs=[_dataset(event_v2.OutputDataset, one) for one in event["outputs"]],
    )


def _dataset(kind: Any, given: dict[str, Any]) -> Any:
    return kind(namespace=given["namespace"], name=given["name"], facets=_facets(given["facets"]))


def _facets(given: dict[str, Any]) -> dict[str, Any]:
    return {name: _facet(name, facet) for name, facet in given.items()}


def _facet(name: str, given: dict[str, Any]) -> Any:
    said = {key: value for key, value in given.items() if not key.startswith("_")}
    producer = given["_producer"]
    match name:
        case "schema":
            fields = [schema_dataset.SchemaDatasetFacetFields(**one) for one in said["fields"]]
            return schema_dataset.SchemaDatasetFacet(fields=fields, producer=producer)
        case "columnLineage":
            columns = {
                column: column_lineage_dataset.Fields(
                    inputFields=[
                        column_lineage_dataset.InputField(**one) for one in part["inputFields"]
                    ]
                )
                for column, part in said["fields"].items()
            }
            return column_lineage_dataset.ColumnLineageDatasetFacet(
                fields=columns, producer=producer
            )
        case "version":
            return dataset_version_dataset.DatasetVersionDatasetFacet(**said, producer=producer)
        case "documentation":
            return documentation_dataset.DocumentationDatasetFacet(**said, producer=producer)
        case _:
            return sql_job.SQLJobFacet(**said, producer=producer)


def without_empty(value: Any) -> Any:
    """Absent and empty are the same to OpenLineage."""
    if isinstance(value, dict):
        parts = {key: without_empty(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in ({}, [], None)}
    return [without_empty(part) for part in value] if isinstance(value, list) else value


def test_the_command_line_draws_trees_and_prints_events(
    service: Service, family: dict[str, DatasetEntry]
) -> None:
    url = f"{service.url}/anna/mid"
    drawn = CliRunner().invoke(main, ["lineage", url, "--columns"])
    assert drawn.exit_code == 0
    assert drawn.stdout.splitlines()[:6] == [
        "anna/mid",
        "  made of",
        "    anna/root",
        f"    {family['other'].id}",
        "  used by",
        "    anna/top",
    ]
    assert "anna/mid.city ← anna/root.city" in drawn.stdout
    events = CliRunner().invoke(main, ["lineage", url, "--openlineage"])
    assert len([json.loads(line) for line in events.stdout.splitlines()]) == 3
    as_json = CliRunner().invoke(main, ["lineage", url, "--json"])
    assert json.loads(as_json.stdout)["dataset"] == str(family["mid"].id)


ORDERS = {"orders": ["event_time", "city", "n"], "acc/cities": ["id", "name"]}
STEPS = (
    ("spark", ["select * from orders"], {"city": ["orders.city"]}),
    ("spark", ["select count(*) as c, 1 as one from orders"], {"c": [], "one": []}),
    (
        "spark",
        ["select o.n * 2 as m, c.name as name from orders o join `acc/cities` c on c.id = o.city"],
        {"m": ["orders.n"], "name": ["acc/cities.name"]},
    ),
    (
        "datafusion",
        ['step=select name || id as x from "acc/cities"', "select max(x) as x from step"],
        {"x": ["acc/cities.name", "acc/cities.id"]},
    ),
    (
        "spark",
        ["select n from orders union all select id as n from `acc/cities`"],
        {"n": ["orders.n", "acc/cities.id"]},
    ),
    (
        "spark",
        [
            (
                "select /*+ LATENESS('1 day') */ window(event_time, '1 day').start as at, "
                "window.end as until, max(n) as m, count(*) as c from orders "
                "group by window(event_time, '1 day')"
            )
        ],
        {"at": ["orders.event_time"], "until": ["orders.event_time"], "m": ["orders.n"], "c": []},
    ),
    (
        "spark",
        [
            "step=select window(event_time, '1 hour'), n from orders",
            "select window, avg(n) as a from step group by window",
        ],
        {"window": ["orders.event_time"], "a": ["orders.n"]},
    ),
    (
        "spark",
        [
            (
                "select window.start as at, sum(m) as s from "
                "(select window.start as t, max(n) as m from orders "
                "group by window(event_time, '1 hour')) group by window(t, '1 day')"
            )
        ],
        {"at": ["orders.event_time"], "s": ["orders.n"]},
    ),
    (
        "spark",
        [
            (
                "select o.n, c.name as name from orders o left asof join `acc/cities` c "
                "match_condition (greatest(o.n, 0) >= c.id) on c.id = o.city"
            )
        ],
        {"n": ["orders.n"], "name": ["acc/cities.name"]},
    ),
    (
        "spark",
        [
            (
                "select 'asof join match_condition (' as text, sum(n) over w as s from orders "
                "window w as (partition by city)"
            )
        ],
        {"text": [], "s": ["orders.n"]},
    ),
    (
        "spark",
        ["select sum(n) over (partition by city order by event_time) as s from orders"],
        {"s": ["orders.n", "orders.city", "orders.event_time"]},
    ),
)


@pytest.mark.parametrize(("engine", "queries", "expected"), STEPS)
def test_columns_of_queries_are_followed(
    engine: str, queries: list[str], expected: dict[str, list[str]]
) -> None:
    steps = [q.partition("=") if q.startswith("step=") else ("", "", q) for q in queries]
    transform = TransformSql(
        engine=engine,
        queries=tuple(SqlQueryStep(alias=name or None, query=sql) for name, _, sql in steps),
    )
    found = column_origins(transform, ORDERS)
    assert found is not None
    for column, origins in expected.items():
        assert sorted(f"{name}.{part}" for name, part in found[column]) == sorted(origins)


SIZE = "case when n > 5 then 'big' else 'small' end"
VALUES = {
    "copied": ["n", "(n)"],
    "computed": ["n + 1", "cast(n as text)", "count(*) over ()", "coalesce(n, 0)", "n > 5"],
    "condition": [SIZE, "case n when 1 then 'one' else 'more' end"],
    "constant": ["'x'", "1 + 1"],
}


@pytest.mark.parametrize(
    ("value", "kind"), [(value, kind) for kind, values in VALUES.items() for value in values]
)
@pytest.mark.parametrize("engine", ["spark", "datafusion"])
def test_columns_say_whether_they_are_copied_computed_chosen_or_constant(
    engine: str, value: str, kind: str
) -> None:
    """Also through a further step, which only copies."""
    first = SqlQueryStep(alias="first", query=f"select event_time, {value} as x from orders")
    second = SqlQueryStep(query="select x, event_time from first")
    transform = TransformSql(engine=engine, queries=(first, second))
    found = column_cells(transform, ORDERS)
    assert found is not None
    assert (found["x"].kind, found["event_time"].kind) == (kind, "copied")


def test_an_expression_is_told_as_far_as_one_says_it_and_up_to_a_length() -> None:
    def of(query: str) -> ColumnCell:
        transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
        found = column_cells(transform, ORDERS)
        assert found is not None
        return found["x"]

    both = "select {} as x from orders union all select {} as x from orders"
    assert of(both.format("n", "n")) == ColumnCell("copied", [("orders", "n")])
    assert of(both.format("n", "n + 1")) == ColumnCell("computed", [("orders", "n")])
    assert of(both.format("'a'", "'b'")) == ColumnCell("constant", [])
    window = "window(event_time, '1 day')"
    assert of(f"select window.start as x from orders group by {window}").expression == (
        "window(orders.event_time, '1 day').start"
    )
    inner = of("select n * 2 as x from (select * from orders)").expression
    assert inner == "n * 2"
    long = of("select " + " + ".join(["n"] * 1000) + " as x from orders").expression
    assert long is not None
    assert (len(long), long[-1]) == (300, "…")


LEFT = {"l": ["id", "ID", "x"], "r": ["ID", "y"]}


@pytest.mark.parametrize(
    ("engine", "inputs", "sql", "expected"),
    [
        ("spark", {"l": ["ID", "x"], "r": ["id", "y"]},
         "select Id, x as X, y from l join r using (id)",
         {"Id": ["l.ID", "r.id"], "X": ["l.x"], "y": ["r.y"]}),
        ("spark", {"l": ["ID", "x"], "R": ["id", "Y"]}, "select * from L join r using (Id)",
         {"ID": ["R.id", "l.ID"], "x": ["l.x"], "Y": ["R.Y"]}),
        ("spark", LEFT, "select id, ID, y from l join r using (ID)",
         {"id": ["l.id"], "ID": ["l.ID", "r.ID"], "y": ["r.y"]}),
        ("datafusion", LEFT, "select id, ID, y from l join r using (ID)",
         {"id": ["l.id"], "ID": ["l.ID", "r.ID"], "y": ["r.y"]}),
        ("datafusion", LEFT, 'select "ID" as A, x from l', {"A": ["l.ID"], "x": ["l.x"]}),
    ],
)  # fmt: skip
def test_columns_whose_names_differ_by_case_are_followed(
    engine: str, inputs: dict[str, list[str]], sql: str, expected: dict[str, list[str]]
) -> None:
    transform = TransformSql(engine=engine, queries=(SqlQueryStep(query=sql),))
    found = column_origins(transform, inputs)
    assert found is not None
    told = {name: sorted(".".join(part) for part in parts) for name, parts in found.items()}
    assert told == expected


def test_columns_that_may_be_one_or_another_have_no_answer() -> None:
    sql = "select x, y from l join r using (iD)"
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=sql),))
    assert column_origins(transform, LEFT) is None


@pytest.mark.parametrize(
    ("engine", "sql"),
    [("spark", "select from where"), ("flink", "select 1"), ("spark", "select x from nobody")],
)
def test_what_cannot_be_followed_has_no_answer(engine: str, sql: str) -> None:
    transform = TransformSql(engine=engine, queries=(SqlQueryStep(query=sql),))
    assert not (column_origins(transform, ORDERS) or {}).get("x")
