"""Manifests tried on a sample: what would be in the datasets, and nothing is made."""

from __future__ import annotations

import base64
import json

import pytest
from click.testing import CliRunner
from service import serving
from tests.workers.derivatives import Working, add_rows, root

from odf_node.cli.main import main

SAMPLE_BYTES = 2_000
CITIES = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read:
        kind: Csv
        header: true
        schema:
          fields:
            - {{name: city, type: String}}
            - {{name: people, type: Int64}}
      merge: {{kind: UpsertStream, primaryKey: [city]}}
"""
SHAPED = CITIES.replace("      merge:", "      preprocess: {{{sql}}}\n      merge:")
LARGE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: {of}, alias: towns}}]
      transform:
        kind: Sql
        engine: datafusion
        query: |
          select event_time, city, {column} * 2 as twice
          from towns
"""
ROWS = "city,people\nOslo,600\nBergen,290\nOslo,700\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    scratch = folder / "scratch"
    scratch.mkdir()
    settings = {
        "tenancy": "single",
        "trial_sample_bytes": SAMPLE_BYTES,
        "trial_manifests": 3,
        "trial_input_rows": 2,
        "poll_s": 0.05,
    }
    with serving(folder / "node", **settings) as service, Working(service, scratch):
        yield service


@pytest.fixture(scope="module")
def client(node):
    with node.http(node.token()) as client:
        yield client


def asked(*manifests, rows=None, **sample):
    body = {"manifests": "---\n".join(manifests)}
    if rows is not None:
        content = base64.b64encode(rows.encode()).decode()
        body["sample"] = {"content": content, "fileName": "rows.csv", **sample}
    return body


@pytest.fixture
def tried(client):
    def run(*manifests, code=200, **more):
        answer = client.post("/datasets/trial", json=asked(*manifests, **more))
        assert answer.status_code == code, answer.text
        assert client.get("/datasets").json()["total"] == before
        return answer.json()

    before = client.get("/datasets").json()["total"]
    return run


def names(outcome):
    return [field["name"] for field in outcome["schema"]["fields"]]


def test_a_root_is_tried_on_a_sample_as_a_post_would_be(tried):
    (found,) = tried(CITIES.format(name="a"), rows=ROWS)["datasets"]
    assert (found["alias"], found["kind"]) == ("kamu/a", "Root")
    assert names(found) == ["offset", "op", "system_time", "event_time", "city", "people"]
    assert (found["rowsRead"], found["rowsMade"]) == (3, 2)  # the later row of Oslo counts
    assert {row["city"]: row["people"] for row in found["rows"]} == {"Oslo": 700, "Bergen": 290}


def test_a_value_that_does_not_fit_is_told_with_its_line(tried):
    problem = tried(CITIES.format(name="a"), rows="city,people\nOslo,many\n", code=400)
    assert "line 2" in problem["detail"]
    assert problem["dataset"] == "kamu/a"


def test_a_key_that_no_column_has_is_refused(tried):
    wrong = CITIES.format(name="a").replace("[city]", "[town]")
    assert "town" in tried(wrong, rows=ROWS, code=400)["detail"]


def test_the_query_of_a_source_runs_on_the_sample(tried):
    sql = "kind: Sql, engine: datafusion, query: 'select city, people * 10 as tens from input'"
    (found,) = tried(SHAPED.format(name="a", sql=sql), rows=ROWS)["datasets"]
    assert sorted(row["tens"] for row in found["rows"]) == [2900, 7000]


def test_a_wrong_query_of_a_source_is_told_with_its_line(tried):
    sql = r'kind: Sql, engine: datafusion, query: "select city,\n towns from input"'
    problem = tried(SHAPED.format(name="a", sql=sql), rows=ROWS, code=400)
    assert problem["type"].endswith("InvalidQuery")
    assert problem["line"] == 2


def test_the_sample_of_a_polled_root_is_the_file_as_its_preparation_leaves_it(tried):
    polled = CITIES.replace("AddPushSource", "SetPollingSource").replace(
        "sourceName: default", "fetch: {{kind: Url, url: 'https://data.example.org/rows.csv.gz'}}"
    )
    (found,) = tried(polled.format(name="a"), rows=ROWS)["datasets"]
    assert found["rowsMade"] == 2


def test_without_a_sample_the_columns_are_those_that_sources_declare(tried):
    (found,) = tried(CITIES.format(name="a"))["datasets"]
    assert names(found)[-2:] == ["city", "people"]
    assert (found["rowsRead"], found["rows"]) == (None, [])


def test_a_derivative_is_tried_on_the_sample_of_an_input_beside_it(tried):
    derived = LARGE.format(name="b", of="a", column="people")
    first, second = tried(derived, CITIES.format(name="a"), rows=ROWS)["datasets"]
    assert [first["alias"], second["alias"]] == ["kamu/a", "kamu/b"]
    assert sorted(row["twice"] for row in second["rows"]) == [580, 1400]
    assert second["engine"] == "datafusion"


def test_a_derivative_of_inputs_without_rows_tells_its_columns(tried):
    derived = LARGE.format(name="b", of="a", column="people")
    _, second = tried(derived, CITIES.format(name="a"))["datasets"]
    assert names(second) == ["offset", "op", "system_time", "event_time", "city", "twice"]
    assert second["rows"] == []


def test_a_derivative_is_tried_on_the_first_rows_of_an_input_of_the_node(node, client, tmp_path):
    stores = node.node.stores
    made = root(stores, "there")
    day = "2024-01-0{}T00:00:00Z"
    add_rows(stores, made, [(day.format(n), "A", n) for n in (1, 2, 3)], tmp_path, at=10)
    body = asked(LARGE.format(name="b", of="there", column="n"))
    answer = client.post("/datasets/trial", json=body)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["datasets"]
    assert [row["twice"] for row in found["rows"]] == [2, 4]
    assert found["rowsRead"] == 2
    assert client.get("/b").status_code == 404


def test_a_derivative_is_tried_on_first_rows_that_lack_a_later_column(client):
    made = client.post(
        "/datasets",
        content=CITIES.format(name="grown"),
        headers={"content-type": "application/yaml"},
    )
    assert made.status_code == 201, made.text
    for rows in ("city,people\nOslo,600\n", "city,people,area\nBergen,290,465\n"):
        posted = client.post(
            "/grown/ingest?addColumns=true", content=rows, headers={"content-type": "text/csv"}
        )
        assert posted.status_code == 200, posted.text
    body = asked(LARGE.format(name="b", of="grown", column="cast(area as bigint)"))
    answer = client.post("/datasets/trial", json=body)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["datasets"]
    assert [(row["city"], row["twice"]) for row in found["rows"]] == [("Oslo", None)]
    body = asked(LARGE.format(name="b", of="grown", column="nowhere"))
    answer = client.post("/datasets/trial", json=body)
    assert (answer.status_code, "nowhere" in answer.json()["detail"]) == (400, True)
    assert client.delete("/grown").status_code == 204


def test_a_wrong_query_of_one_of_several_names_its_dataset(tried):
    derived = LARGE.format(name="b", of="a", column="absent")
    problem = tried(derived, CITIES.format(name="a"), rows=ROWS, code=400)
    assert (problem["dataset"], problem["line"]) == ("kamu/b", 1)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (asked(CITIES.format(name="a"), rows="x" * (SAMPLE_BYTES + 1)), 413, "at most 2000 bytes"),
        (asked(*(CITIES.format(name=name) for name in "abcd")), 413, "takes 3 manifests"),
        (asked(*(CITIES.format(name=name) for name in "ab"), rows=ROWS), 400, "name it"),
        (asked(LARGE.format(name="b", of="nothing", column="n")), 400, "nothing"),
        (asked(CITIES.format(name="a"), CITIES.format(name="a")), 400, "two manifests"),
        ({"manifests": CITIES.format(name="a"), "sample": {"content": "%"}}, 400, "Base64"),
        ({"manifest": ""}, 400, "cannot be read"),
    ],
)
def test_what_cannot_be_tried_is_refused(client, body, status, said):
    answer = client.post("/datasets/trial", json=body)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]


def test_strangers_try_nothing(node):
    with node.http() as nobody:
        body = asked(CITIES.format(name="a"))
        assert nobody.post("/datasets/trial", json=body).status_code == 401
        assert nobody.post("/datasets/trial", content=b"no trial").status_code == 401


def test_the_command_prints_columns_and_rows_or_what_is_wrong(node, client, tmp_path):
    manifests = tmp_path / "both.yaml"
    text = CITIES.format(name="a") + "---\n" + LARGE.format(name="b", of="a", column="people")
    manifests.write_text(text)
    sample = tmp_path / "rows.csv"
    sample.write_text(ROWS)

    def run(*words):
        given = ["dataset", "create", manifests, "--node", node.url, "--token", node.token()]
        return CliRunner().invoke(main, [*map(str, given), *words])

    done = run("--dry-run", "--sample", str(sample))
    assert done.exit_code == 0, done.output
    assert "kamu/b (Derivative) would be created" in done.stdout
    assert "3 row(s) read, 2 made" in done.stdout
    assert "1400" in done.stdout
    shown = json.loads(run("--dry-run", "--json").stdout)
    assert [one["alias"] for one in shown["datasets"]] == ["kamu/a", "kamu/b"]
    sample.write_text("city,people\nOslo,many\n")
    wrong = run("--dry-run", "--sample", str(sample))
    assert wrong.exit_code != 0
    assert "kamu/a: line 2" in wrong.stderr
    assert run("--sample", str(sample)).exit_code == 2
    assert client.get("/a").status_code == 404


def test_nobody_tries_a_query_on_rows_that_are_hidden_from_them(tmp_path):
    with serving(tmp_path / "multi", tenancy="multi") as service:
        made = root(service.node.stores, "there")
        with service.http(service.token("bert")) as bert:
            for name in ("kamu/there", str(made.id)):
                body = asked(LARGE.format(name="b", of=f"'{name}'", column="n"))
                answer = bert.post("/datasets/trial", json=body)
                assert answer.status_code == 400, answer.text
                assert answer.json()["missing"] == [name]
