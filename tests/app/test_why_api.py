"""Questions about rows, asked of a node: who may ask, what is refused, which forms there are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from openlineage.client import event_v2
from openlineage.client.serde import Serde
from refusals import refusing
from service import Service, serving
from tests.workers.derivatives import Working, add_rows, commit, derivative, moment, node_of, root

import odf_node
from odf_node.cli.main import main
from odf_node.client.nodes.http import open_http
from odf_node.client.nodes.node_api import NodeApi
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyLedger, ReadStepNdJson
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.stores.ports.values import Visibility
from odf_workers.jobs.transform.run import run_transform

DAY = "2024-01-0{}T00:00:00Z"
TENS = "select event_time, city, n * 10 as tens, 'x' as mark from cities where n % 2 = 1"


class Made:
    """A node with a root, `cities`, and a public derivative of it, `tens`."""

    def __init__(self, service: Service, scratch: Path) -> None:
        self.service = service
        stores = service.node.stores
        self.cities = root(stores, "cities")
        rows = [(DAY.format(1 + n % 3), "AB"[n % 2], n) for n in range(6)]
        add_rows(stores, self.cities, rows, scratch, at=10)
        self.tens = derivative(stores, "tens", [self.cities], TENS)
        self.towns = root(stores, "towns")
        add_rows(stores, self.towns, [(DAY.format(1), "<b>", 1)], scratch, at=10)
        self.twos = derivative(stores, "twos", [self.towns], TENS.replace("cities", "towns"))
        for each in (self.tens, self.towns, self.twos):
            stores.set_visibility(each.id, Visibility.PUBLIC)
        bench = node_of(stores, scratch)
        for each in (self.tens, self.twos):
            run_transform(stores, each, TransformPayload(), bench, now=moment(1000))

    def ask(self, dataset: Dataset, account: str | None = "kamu", **asked: Any) -> httpx.Response:
        token = None if account is None else self.service.token(account)
        accept = {"accept": asked.pop("accept")} if "accept" in asked else {}
        with self.service.http(token) as http:
            name = dataset.entry.alias
            return http.get(f"/{name}/why", params=asked, headers=accept)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("why")
    scratch = folder / "scratch"
    scratch.mkdir()
    with (
        serving(folder / "node", poll_s=0.05, tenancy="multi") as service,
        Working(service, scratch),
    ):
        service.token("kamu")
        yield Made(service, scratch)


def test_the_answer_leads_from_a_row_to_the_rows_and_columns_that_it_was_made_of(
    made: Made,
) -> None:
    answer = made.ask(made.tens, offset=1, depth="all")
    assert answer.status_code == 200, answer.text
    step = answer.json()["step"]
    assert step["row"]["values"]["tens"] == 30
    assert step["why"][0]["rows"] == [{"start": 3, "end": 3, "role": "source"}]
    assert step["where"]["tens"] == {
        "kind": "computed",
        "columns": ["cities.n"],
        "expression": "cities.n * 10",
    }
    assert step["where"]["city"] == {"kind": "copied", "columns": ["cities.city"]}
    assert step["where"]["mark"] == {"kind": "constant"}
    assert step["check"] == {"verdict": "reproduced"}
    assert [each["row"]["values"]["n"] for each in step["inputs"]] == [3]
    assert answer.json()["at"] == str(made.tens.head())


def test_only_the_columns_that_were_asked_for_are_explained(made: Made) -> None:
    step = made.ask(made.tens, offset=0, column=["city"]).json()["step"]
    assert list(step["where"]) == ["city"]


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"offset": 99}, 404, "RowNotFound"),
        ({"offset": -1}, 400, None),
        ({"offset": "one"}, 400, None),
        ({}, 400, "OffsetOrKey"),
        ({"offset": 0, "key": "A"}, 400, "OffsetOrKey"),
        ({"key": "A"}, 400, "NoPrimaryKey"),
        ({"offset": 0, "column": "nobody"}, 400, "UnknownColumn"),
        ({"offset": 0, "depth": "0"}, 400, "MalformedDepth"),
        ({"offset": 0, "depth": "٣"}, 400, "MalformedDepth"),
        ({"offset": 0, "depth": "999"}, 400, "MalformedDepth"),
        ({"offset": 0, "after": "x"}, 400, "MalformedPage"),
        ({"offset": 0, "after": "0.source.²"}, 400, "MalformedPage"),
    ],
)
def test_a_question_that_has_no_answer_is_refused_with_the_reason(
    made: Made, asked: dict[str, Any], status: int, code: str | None
) -> None:
    answer = made.ask(made.tens, **asked)
    assert answer.status_code == status, answer.text
    assert "application/problem+json" in answer.headers["content-type"]
    if code is not None:
        assert answer.json()["type"].rpartition(":")[2].rpartition("/")[2] == code


def test_a_row_is_named_by_its_key_and_the_newest_one_counts(made: Made, tmp_path: Path) -> None:
    stores = made.service.node.stores
    keyed = root(stores, "keyed")
    merge = MergeStrategyLedger(primary_key=("city", "n"))
    commit(keyed, AddPushSource(source_name="posts", read=ReadStepNdJson(), merge=merge), at=5)
    rows = [(DAY.format(1), "A", 1), (DAY.format(1), "B", 1), (DAY.format(2), "A", 2)]
    add_rows(stores, keyed, rows, tmp_path, at=10)
    add_rows(stores, keyed, rows[:1], tmp_path, at=11, ops=[1])

    def found(*key: Any) -> Any:
        answer = made.ask(keyed, key=list(key))
        return answer.json()["step"]["row"] if answer.status_code == 200 else answer.json()["title"]

    assert [found(*key)["offset"] for key in (("B", 1), ("A", 2))] == [1, 2]
    gone = found("A", "1")
    assert (gone["offset"], gone["operation"], gone["undoes"]) == (3, "retract", 0)
    for key, code in [
        (("C", 1), "RowNotFound"),
        (("A",), "WrongKey"),
        (("A", "x"), "MalformedFilter"),
    ]:
        answer = made.ask(keyed, key=list(key))
        assert (answer.status_code, code in answer.text) == (
            404 if code == "RowNotFound" else 400,
            True,
        )
    before = made.ask(keyed, key=["A", 1], at=str(keyed.block(keyed.head()).prev)).json()
    assert before["step"]["row"]["offset"] == 0
    token = made.service.token("kamu")
    url = f"{made.service.url}/kamu/keyed"
    asked = ["why", url, "city", "--key", "B", "--key", "1", "--token", token]
    ran = CliRunner().invoke(main, asked)
    assert ran.output.splitlines()[0] == "kamu/keyed offset 1 (append): city = B"
    ran = CliRunner().invoke(main, ["why", url, "--token", token])
    assert (ran.exit_code, "name the row by its OFFSET, or by --key" in ran.output) == (2, True)
    step = odf_node.open(url, token=token).why(key=["B", "1"])["step"]
    assert step["row"]["offset"] == 1


def test_a_block_of_another_history_is_refused(made: Made) -> None:
    answer = made.ask(made.tens, offset=0, at=str(made.cities.head()))
    assert answer.status_code == 404
    assert made.ask(made.tens, offset=0, at="nothing").text.startswith("Invalid hash")


def test_who_may_not_read_the_dataset_may_not_ask_why(made: Made) -> None:
    assert made.ask(made.cities, "other", offset=0).status_code == 404
    assert made.ask(made.cities, None, offset=0).status_code == 404


@pytest.mark.parametrize("account", ["other", None])
def test_who_may_read_the_derivative_alone_learns_of_its_input_the_id_and_the_number_of_rows(
    made: Made, account: str | None
) -> None:
    answer = made.ask(made.tens, account, offset=1, depth="all")
    assert answer.status_code == 200, answer.text
    step = answer.json()["step"]
    (hidden,) = step["why"]
    assert (hidden["dataset"], hidden["alias"], hidden["count"]) == (str(made.cities.id), "", 1)
    assert "rows" not in hidden
    assert "inputs" not in step
    assert "where" not in step
    assert '"n":3' not in answer.text


def test_the_answer_of_one_account_is_no_job_that_another_sees(made: Made) -> None:
    token = made.service.token("kamu")
    with made.service.http(token) as http:
        answer = http.get("/kamu/tens/why?offset=2", headers={"prefer": "respond-async"})
        job = answer.json().get("job")
        assert answer.status_code == 202
    with made.service.http(made.service.token("other")) as http:
        assert http.get(f"/jobs/{job}").status_code == 404
        listed = http.get("/kamu/tens/jobs").json()["jobs"]
    assert job not in {each["id"] for each in listed}


def test_who_waits_for_an_answer_sees_its_job(made: Made) -> None:
    """The command shows phase and rows of it on a terminal."""
    seen: list[dict[str, Any]] = []
    with open_http() as http:
        api = NodeApi(f"{made.service.url}/kamu/tens/", made.service.token("kamu"), http=http)
        step = api.why(seen=seen.append, offset=0, depth="all")["step"]
    assert step["row"]["offset"] == 0
    assert seen[-1]["status"] == "succeeded"


def test_prov_has_an_entity_for_each_row_and_an_activity_for_each_block(made: Made) -> None:
    answer = made.ask(made.tens, offset=1, depth="all", accept="application/prov+json")
    assert answer.headers["content-type"] == "application/prov+json"
    document = answer.json()
    row, source = f"row:{_short(made.tens)}/1", f"row:{_short(made.cities)}/3"
    assert set(document["entity"]) == {row, source}
    assert document["entity"][row]["odf:offset"] == [{"$": "1", "type": "xsd:string"}]
    assert len(document["activity"]) == 2
    (derived,) = document["wasDerivedFrom"].values()
    assert (derived["prov:generatedEntity"], derived["prov:usedEntity"]) == (row, source)
    for name, each in document["entity"].items():
        assert name.count(":") == 1
        assert all(isinstance(value, list) for value in each.values())


def test_prov_is_read_whole_by_the_library_of_its_authors(made: Made) -> None:
    model = pytest.importorskip("prov.model", reason="needs prov, of the test tools")
    answer = made.ask(made.tens, offset=1, depth="all", accept="application/prov+json")
    read = model.ProvDocument.deserialize(content=answer.text, format="json")
    kinds = Counter(type(each) for each in read.get_records())
    assert kinds == {
        model.ProvEntity: 2,
        model.ProvActivity: 2,
        model.ProvGeneration: 2,
        model.ProvUsage: 1,
        model.ProvDerivation: 1,
    }
    rows = {each.identifier.localpart: each for each in read.get_records(model.ProvEntity)}
    row = rows[f"{_short(made.tens)}/1"]
    told = {name.localpart: value for name, value in row.attributes}
    assert (told["alias"], told["offset"], told["stands"]) == ("kamu/tens", "1", True)
    assert json.loads(told["values"])["tens"] == 30
    (derived,) = read.get_records(model.ProvDerivation)
    assert [one.localpart for one in derived.args[:2]] == [
        f"{_short(made.tens)}/1",
        f"{_short(made.cities)}/3",
    ]
    ends = [one.get_endTime() for one in read.get_records(model.ProvActivity)]
    assert None not in ends
    for form in ("json", "provn", "xml"):
        assert read.serialize(format=form)
    again = model.ProvDocument.deserialize(content=read.serialize(format="json"), format="json")
    assert again == read


def test_openlineage_has_a_run_for_each_step_that_its_own_client_reads(made: Made) -> None:
    media_type = "application/vnd.openlineage+json"
    answer = made.ask(made.tens, offset=1, depth="all", accept=media_type)
    events = answer.json()
    assert len(events) == 2
    event = events[0]
    assert event["inputs"][0]["facets"]["odf_why"]["rows"] == (
        '[{"start":3,"end":3,"role":"source"}]'
    )
    columns = event["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert columns["tens"]["inputFields"][0]["name"] == str(made.cities.id)
    run = event_v2.RunEvent(
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=event_v2.Run(event["run"]["runId"]),
        job=event_v2.Job(event["job"]["namespace"], event["job"]["name"]),
        eventType=event_v2.RunState.COMPLETE,
    )
    assert json.loads(Serde.to_json(run))["run"]["runId"] == event["run"]["runId"]


def test_the_command_prints_a_tree_down_to_the_root(made: Made) -> None:
    token = made.service.token("kamu")
    url = f"{made.service.url}/kamu/tens"
    ran = CliRunner().invoke(main, ["why", url, "1", "tens", "--depth", "all", "--token", token])
    assert ran.exit_code == 0, ran.output
    lines = ran.output.splitlines()
    assert lines[0] == "kamu/tens offset 1 (append): tens = 30"
    assert "  tens ← cities.n (computed: cities.n * 10)" in lines
    assert "  from kamu/cities: 1 row(s): 3" in lines
    assert "  reproduced" in lines
    last = "    kamu/cities offset 3 (append): event_time = 2024-01-01T00:00:00Z, city = B, n = 3"
    assert last in lines
    missing = CliRunner().invoke(main, ["why", url, "99", "--token", token])
    assert missing.exit_code == 3
    assert "did you mean" not in missing.stderr  # of a dataset that is there


def test_python_asks_the_same_question(made: Made) -> None:
    token = made.service.token("kamu")
    dataset = odf_node.open(f"{made.service.url}/kamu/tens", token=token)
    found = dataset.why(1, columns=["tens"], depth="all")
    assert found["step"]["inputs"][0]["row"]["offset"] == 3
    with refusing("NothingThere"):
        dataset.why(99)
    with refusing("UnsupportedUrl"):
        odf_node.open("/nowhere/at-all").why(0)


def page(made: Made, address: str) -> str:
    with made.service.http() as http:
        answer = http.get(address, headers={"accept": "text/html"})
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return answer.text


def test_each_row_of_a_page_leads_to_why_it_is_there_and_from_there_to_its_rows(
    made: Made,
) -> None:
    for address in ("/kamu/twos", "/kamu/twos?rows=0", "/kamu/twos?changelog=0"):
        assert '<a href="/kamu/twos?why=0"' in page(made, address)
    text = page(made, "/kamu/twos?why=0")
    assert "The named rows alone give this row." in text
    assert "towns.n; computed: towns.n * 10" in text
    assert '<svg class="lineage"' in text
    assert '<a href="/kamu/towns?why=0"><g class="box"' in text
    assert "style=" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;" in text


def test_the_page_of_a_row_that_is_not_there_says_so_and_of_hidden_inputs_their_number(
    made: Made,
) -> None:
    assert "has no row with the offset 99" in page(made, "/kamu/twos?why=99")
    assert "named by its offset" in page(made, "/kamu/twos?why=%C2%B2")
    text = page(made, "/kamu/tens?why=1")
    assert "1 row(s); it is not on this node, or you may not read it" in text
    assert "kamu/cities" not in text


def test_an_equal_question_is_answered_by_the_job_that_answered_it(made: Made) -> None:
    jobs = made.service.node.stores.jobs
    made.ask(made.twos, "other", offset=0, depth="3")
    before = len(jobs.page(kinds=("why",), limit=1000))
    assert made.ask(made.twos, "other", offset=0, depth="3").status_code == 200
    assert len(jobs.page(kinds=("why",), limit=1000)) == before
    assert made.ask(made.twos, "kamu", offset=0, depth="3").status_code == 200
    assert len(jobs.page(kinds=("why",), limit=1000)) == before + 1


def test_a_node_of_one_tenant_names_datasets_without_their_account(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    with (
        serving(tmp_path / "node", poll_s=0.05) as service,
        Working(service, tmp_path / "scratch"),
    ):
        made = Made(service, tmp_path / "scratch")
        with service.http() as http:
            step = http.get("/twos/why?offset=0").json()["step"]
        assert (step["row"]["alias"], step["why"][0]["alias"]) == ("twos", "towns")
        assert '<a href="/towns?why=0"><g class="box"' in page(made, "/twos?why=0")


def _short(dataset: Dataset) -> str:
    return str(dataset.id).rpartition(":")[2]
