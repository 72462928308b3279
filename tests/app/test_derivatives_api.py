"""Derivatives of a node: defined, looked at, followed, paused, seen. The worker has DataFusion."""

from __future__ import annotations

import time

import pytest
from service import serving
from tests.workers.derivatives import Working, add_rows, commit, read, root

from odf_protocol.identity import DatasetRef
from odf_storage.stores.ports.values import Visibility

PATIENCE_S = 60
DAY = "2024-01-0{}T00:00:00Z"


@pytest.fixture
def service(tmp_path):
    quick = {"poll_s": 0.05, "follow_debounce_s": 0.05}
    with serving(tmp_path / "node", **quick, query_check_s=PATIENCE_S) as service:
        yield service


@pytest.fixture
def stores(service):
    return service.node.stores


@pytest.fixture
def client(service):
    with service.http(service.token()) as client:
        yield client


@pytest.fixture
def working(service, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with Working(service, scratch):
        yield


@pytest.fixture
def cities(stores):
    made = root(stores, "cities")
    stores.set_visibility(made.id, Visibility.PUBLIC)
    return made


def manifest(name, query, *inputs, engine="datafusion"):
    given = [{"datasetRef": one, "alias": one.split("/")[-1]} for one in inputs]
    transform = {"kind": "Sql", "engine": engine, "query": query}
    event = {"kind": "SetTransform", "inputs": given, "transform": transform}
    content = {"name": name, "kind": "Derivative", "metadata": [event]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def create(client, name, query, *inputs, **more):
    return client.post("/datasets", json=manifest(name, query, *inputs), params=more)


def until(client, name, what):
    """The derivation once it is as wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = client.get(f"/{name}").json()["derivation"]
        if what(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def up_to_date(found):
    return found["status"] == "up-to-date"


TENS = "select event_time, city, n * 10 as n from cities"


def test_a_derivative_follows_its_input_by_itself(client, stores, cities, working, tmp_path):
    answer = create(client, "tens", TENS, "cities")
    assert answer.status_code == 201
    assert answer.json()["transform"]["outcome"] == "valid"
    until(client, "tens", up_to_date)
    for n in (1, 2):
        add_rows(stores, cities, [(DAY.format(n), "A", n)], tmp_path, at=10 + n)
        until(client, "tens", up_to_date)
    tens = stores.dataset(DatasetRef.parse("kamu/tens"))
    assert [row["n"] for row in read(stores, tens)] == [10, 20]
    found = client.get("/tens").json()["derivation"]
    assert found["engine"]["name"] == "datafusion"
    assert (found["behindBlocks"], found["problem"]) == (0, None)
    assert client.get("/cities").json()["derivation"] is None


def test_derivatives_of_derivatives_follow_over_a_diamond(
    client, stores, cities, working, tmp_path
):
    create(client, "left", TENS, "cities")
    create(client, "right", "select event_time, city, -n as n from cities", "cities")
    until(client, "left", up_to_date)
    until(client, "right", up_to_date)
    both = 'select event_time, n from "left" union all select event_time, n from "right"'
    assert create(client, "both", both, "left", "right").status_code == 201
    add_rows(stores, cities, [(DAY.format(1), "A", 7)], tmp_path, at=10)
    dataset = stores.dataset(DatasetRef.parse("kamu/both"))
    deadline = time.monotonic() + PATIENCE_S
    while len(read(stores, dataset)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sorted(row["n"] for row in read(stores, dataset)) == [-7, 70]


def test_a_wrong_query_is_refused_with_position_and_reason(client, stores, cities, working):
    answer = create(client, "bad", "select event_time,\n nothing from cities", "cities")
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["type"].endswith("InvalidQuery")
    assert "nothing" in problem["detail"]
    assert client.get("/bad").status_code == 404


def test_a_dry_run_shows_the_result_and_creates_nothing(client, stores, cities, working):
    answer = create(client, "tens", TENS, "kamu/cities", dryRun="true")
    assert answer.status_code == 200
    shown = answer.json()
    names = [field["name"] for field in shown["transform"]["schema"]["fields"]]
    assert names == ["offset", "op", "system_time", "event_time", "city", "n"]
    (event,) = shown["events"]
    assert event["inputs"] == [{"datasetRef": str(cities.id), "alias": "cities"}]
    assert "query" not in event["transform"]
    assert client.get("/tens").status_code == 404


def test_unknown_inputs_are_refused_by_name(client, cities):
    answer = create(client, "tens", TENS, "cities", "towns")
    assert answer.status_code == 400
    assert answer.json()["missing"] == ["towns"]


def test_without_a_worker_a_transform_is_taken_unseen(service, stores, cities, tmp_path):
    with serving(tmp_path / "other", query_check_s=0.05) as lonely:
        root(lonely.node.stores, "cities")
        with lonely.http(lonely.token()) as client:
            answer = create(client, "tens", TENS, "cities")
            assert answer.status_code == 201
            assert answer.json()["transform"]["outcome"] == "unknown"


def test_an_engine_that_fails_leaves_a_transform_unseen_and_is_named(
    client, cities, working, monkeypatch
):
    from odf_protocol.metadata.events import TransformResponseInternalError
    from odf_workers.engines.datafusion.engine import DataFusionEngine

    failed = TransformResponseInternalError(message="no memory")
    monkeypatch.setattr(DataFusionEngine, "execute_transform", lambda *_: failed)
    answer = create(client, "tens", TENS, "cities")
    assert answer.status_code == 201
    transform = answer.json()["transform"]
    assert transform["outcome"] == "unknown"
    assert "no memory" in transform["reason"]


def test_a_renamed_input_is_still_followed(client, stores, cities, working, tmp_path):
    from odf_protocol.identity import DatasetAlias

    create(client, "tens", TENS, "cities")
    stores.rename_dataset(cities.id, DatasetAlias.parse("kamu/towns"))
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    found = until(client, "tens", up_to_date)
    assert found["problem"] is None
    assert client.get("/tens").json()["records"] == 1
    (given,) = client.get("/tens/dependencies").json()["inputs"]
    assert (given["alias"], given["queryAlias"]) == ("towns", "cities")


def test_a_cycle_is_refused(client, stores, cities, working):
    create(client, "one", TENS, "cities")
    until(client, "one", up_to_date)
    create(client, "two", "select event_time, city, n from one", "one")
    until(client, "two", up_to_date)
    event = manifest("one", "select event_time, city, n from two", "two")["content"]["metadata"][0]
    answer = client.post(
        "/one/metadata", json={"kind": "MetadataEvent", "version": 1, "content": event}
    )
    assert answer.status_code == 409
    assert answer.json()["type"].endswith("DependencyCycle")


def test_a_rewritten_input_pauses_until_a_refresh_says_otherwise(
    client, stores, cities, working, tmp_path
):
    before = cities.head()
    create(client, "tens", TENS, "cities")
    until(client, "tens", up_to_date)
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    until(client, "tens", lambda found: client.get("/tens").json()["records"] == 1)
    stores.refs.move(cities.id, expected=cities.head(), new=before)
    add_rows(stores, cities, [(DAY.format(2), "B", 2)], tmp_path, at=20)
    paused = until(client, "tens", lambda found: found["status"] == "paused")
    assert paused["problem"]["error"] == "InvalidInputInterval"
    assert paused["problem"]["input"] == "cities"
    assert client.post("/tens/refresh").status_code == 409
    until(client, "tens", lambda found: found["status"] == "paused")
    answer = client.post("/tens/refresh", params={"resetOnDivergedInput": "true"})
    assert answer.status_code == 200
    assert answer.json()["wasReset"]
    until(client, "tens", up_to_date)
    add_rows(stores, cities, [(DAY.format(3), "C", 3)], tmp_path, at=30)
    tens = stores.dataset(DatasetRef.parse("kamu/tens"))
    until(client, "tens", lambda found: client.get("/tens").json()["records"] == 2)
    assert [row["city"] for row in read(stores, tens)] == ["B", "C"]


def test_another_transform_resumes_a_paused_derivative(client, stores, cities, working, tmp_path):
    create(client, "tens", "select event_time, city, 10 / n as n from cities", "cities")
    until(client, "tens", up_to_date)
    add_rows(stores, cities, [(DAY.format(1), "A", 0)], tmp_path, at=10)
    until(client, "tens", lambda found: found["status"] == "paused")
    event = manifest("tens", TENS, "cities")["content"]["metadata"][0]
    answer = client.post(
        "/tens/metadata", json={"kind": "MetadataEvent", "version": 1, "content": event}
    )
    assert answer.status_code == 200, answer.text
    until(client, "tens", up_to_date)
    assert client.get("/tens").json()["records"] == 1


def test_a_dry_run_of_another_transform_shows_its_schema_and_appends_nothing(
    client, stores, cities, working
):
    create(client, "tens", TENS, "cities")
    until(client, "tens", up_to_date)
    before = client.get("/tens/refs/head").text
    more = "select event_time, city, n * 10 as n, upper(city) as shout from cities"

    def asked(query, *inputs):
        event = manifest("tens", query, *inputs)["content"]["metadata"][0]
        body = {"kind": "MetadataEvent", "version": 1, "content": event}
        return client.post("/tens/metadata", json=body, params={"dryRun": "true"})

    shown = asked(more, "cities").json()
    assert shown["dryRun"]
    assert shown["event"]["inputs"][0]["datasetRef"] == str(cities.id)
    fields = [field["name"] for field in shown["transform"]["schema"]["fields"]]
    assert fields == ["offset", "op", "system_time", "event_time", "city", "n", "shout"]
    wrong = asked("select event_time,\n nothing from cities", "cities")
    assert wrong.status_code == 400
    assert (wrong.json()["line"], wrong.json()["column"]) == (2, 2)
    assert asked("select event_time, n from cities", "cities").status_code == 400
    assert asked("select event_time, city, n from tens", "tens").status_code == 409
    assert client.get("/tens/refs/head").text == before


def test_a_refresh_is_answered_with_the_receipt(client, stores, cities, working, tmp_path):
    create(client, "tens", TENS, "cities")
    create(client, "twenties", "select event_time, n * 2 as n from tens", "tens")
    until(client, "tens", up_to_date)
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    receipt = client.post("/twenties/refresh", params={"recursive": "true"}).json()
    assert receipt["outcome"] in ("updated", "up-to-date")
    assert client.get("/twenties").json()["records"] == 1


def test_dependencies_show_what_the_caller_may_see(tmp_path):
    with serving(tmp_path / "many", tenancy="multi", query_check_s=0.01) as service:
        first = root(service.node.stores, "cities")
        service.node.stores.set_visibility(first.id, Visibility.PUBLIC)
        with service.http(service.token("kamu")) as client:
            create(client, "one", TENS, "kamu/cities", visibility="public")
            create(client, "hidden", "select 1", "kamu/one", visibility="private")
            create(client, "beyond", "select 1", "kamu/hidden", visibility="public")
            found = client.get("/kamu/cities/dependencies").json()
            assert [(item["alias"], item["depth"]) for item in found["downstream"]] == [
                ("kamu/one", 1),
                ("kamu/hidden", 2),
                ("kamu/beyond", 3),
            ]
            found = client.get("/kamu/beyond/dependencies").json()
            assert [item["alias"] for item in found["upstream"]] == [
                "kamu/hidden",
                "kamu/one",
                "kamu/cities",
            ]
        with service.http() as anybody:
            found = anybody.get("/kamu/cities/dependencies").json()
            assert [item["alias"] for item in found["downstream"]] == ["kamu/one"]
            found = anybody.get("/kamu/beyond/dependencies").json()
            assert found["upstream"] == []
            assert [item["alias"] for item in found["inputs"]] == [None]


def test_metadata_of_inputs_leaves_a_derivative_as_it_is(client, stores, cities, working):
    from odf_protocol.metadata.events import SetInfo

    create(client, "tens", TENS, "cities")
    until(client, "tens", up_to_date)
    head = client.get("/tens").json()["head"]
    commit(cities, SetInfo(description="cities"), at=50)
    time.sleep(0.5)
    assert client.get("/tens").json()["head"] == head


def test_the_command_line_defines_refreshes_and_shows(
    service, client, stores, cities, working, tmp_path
):
    import json

    from click.testing import CliRunner

    from odf_node.cli.main import main

    def run(*words):
        done = CliRunner().invoke(main, [*words, "--token", service.token()])
        assert done.exit_code == 0, done.output
        return done.output

    path = tmp_path / "tens.json"
    path.write_text(json.dumps(manifest("tens", TENS, "cities")))
    shown = run("dataset", "create", str(path), "--node", service.url, "--dry-run")
    assert "kamu/tens (Derivative) would be created" in shown
    assert client.get("/tens").status_code == 404
    run("dataset", "create", str(path), "--node", service.url)
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    receipt = json.loads(run("refresh", f"{service.url}/tens", "--recursive", "--json"))
    assert receipt["engine"] in ("datafusion", None)
    until(client, "tens", up_to_date)
    assert client.get("/tens").json()["records"] == 1
    text = run("refresh", f"{service.url}/tens")
    assert "up to date" in text or "up-to-date" in text
    shown = run("dataset", "dependencies", f"{service.url}/cities")
    assert shown.startswith("-> tens")


COLUMNS = [{"name": "symbol", "type": "String"}, {"name": "price", "type": "Float64"}]


def source(query, fields=COLUMNS, merge=None):
    """A push source with a query."""
    read = (
        {"kind": "NdJson"} if fields is None else {"kind": "NdJson", "schema": {"fields": fields}}
    )
    return {
        "kind": "AddPushSource",
        "sourceName": "default",
        "read": read,
        "preprocess": {"kind": "Sql", "engine": "datafusion", "query": query},
        "merge": merge or {"kind": "Append"},
    }


def root_of(name, *events):
    content = {"name": name, "kind": "Root", "metadata": list(events)}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def test_a_wrong_query_of_a_source_is_refused_when_it_is_defined(client, working):
    answer = client.post("/datasets", json=root_of("bad", source("select symbl from input")))
    assert answer.status_code == 400
    assert answer.json()["type"].endswith("InvalidQuery")
    assert "symbl" in answer.json()["detail"]
    assert client.get("/bad").status_code == 404
    good = source("select symbol, price * 2 as price from input")
    created = client.post("/datasets", json=root_of("good", good))
    assert created.status_code == 201, created.text
    assert created.json()["sources"]["default"]["outcome"] == "valid"
    event = {"kind": "MetadataEvent", "version": 1, "content": source("select nothing from input")}
    assert client.post("/good/metadata", json=event).status_code == 400


def test_a_merge_by_a_column_that_does_not_come_out_is_refused(client, working):
    by_symbol = {"kind": "Ledger", "primaryKey": ["symbol"]}
    wrong = source("select price from input", merge=by_symbol)
    answer = client.post("/datasets", json=root_of("bad", wrong))
    assert answer.status_code == 400
    assert answer.json()["type"].endswith("CannotMerge")


def test_a_source_without_columns_is_taken_unseen_and_says_so(client):
    answer = client.post("/datasets", json=root_of("unseen", source("select x from input", None)))
    assert answer.status_code == 201
    assert answer.json()["sources"]["default"]["outcome"] == "unknown"


def test_an_input_without_rows_is_known_by_what_its_source_declares(client, working):
    doubled = source("select symbol, price * 2 as double from input")
    assert client.post("/datasets", json=root_of("prices", doubled)).status_code == 201
    wrong = create(client, "wrong", "select event_time, price from prices", "prices")
    assert wrong.status_code == 400
    assert wrong.json()["type"].endswith("InvalidQuery")
    right = create(client, "right", 'select event_time, symbol, "double" from prices', "prices")
    assert right.status_code == 201
    assert right.json()["transform"]["outcome"] == "valid"
