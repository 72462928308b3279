"""The name of a dataset means its current rows wherever a table is meant; its changelog is asked
for by name. What peers read stays the changelog, and so does an answer that names no projection.

`tests/app/test_doors_and_clients.py` tries the doors of other programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from service import Service, serving
from table_made import TableMade

import odf_node
from odf_node.cli.main import main
from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.errors import BadInput
from odf_storage.stores.ports.values import Visibility

A, R, C, D = range(4)
COLUMNS = pa.schema([("city", pa.string()), ("people", pa.int64())])
CURRENT = [0, 2, 5, 7]
"""Offsets of the rows that were added and neither retracted (1) nor corrected (3)."""
EVERY = list(range(8))
COUNT = "select count(*) as n from "


@dataclass(frozen=True)
class Places:
    service: Service
    folder: Path

    @property
    def url(self) -> str:
        return f"{self.service.url}/cities"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with serving(tmp_path_factory.mktemp("which") / "node", signing_key="7b" * 32) as service:
        stores, public = service.node.stores, Visibility.PUBLIC
        made = TableMade(stores, "kamu/cities", COLUMNS, key=["city"], visibility=public)
        made.add([{"city": f"c{n}", "people": n} for n in range(3)])
        made.add([{"city": "c3", "people": 3}])
        before, after = {"city": "c3", "people": 3}, {"city": "c3", "people": 30}
        gone = {"city": "c1", "people": 1}
        made.add([before, after, gone, gone], [C, D, R, A])
        plain = TableMade(stores, "kamu/plain", COLUMNS, visibility=public)
        plain.add([{"city": f"c{n}", "people": n} for n in range(5)])
        folder = tmp_path_factory.mktemp("copy") / "cities"
        sync.pull(Location.parse(f"{service.url}/cities"), Location.parse(str(folder)))
        yield Places(service, folder)


def _get(places: Places, path: str, **params: Any) -> Any:
    with places.service.http() as http:
        answer = http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer


def _ask(places: Places, query: str, **more: Any) -> Any:
    with places.service.http() as http:
        answer = http.post("/query", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def _verify(places: Places, answer: dict[str, Any], **changed: Any) -> Any:
    body = {name: answer[name] for name in ("input", "subQueries", "commitment", "proof")}
    with places.service.http() as http:
        return http.post("/verify", json=body | changed).json()


def _offsets(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["offset"] for row in rows)


def test_read_has_current_rows_and_every_row_by_name(places):
    assert _offsets(_get(places, "/cities/read", format="json").json()) == CURRENT
    named = _get(places, "/cities/read", format="json", projection="changelog")
    assert _offsets(named.json()) == EVERY
    assert (
        _offsets(_get(places, "/cities/read", format="json", limit=2, skip=1).json())
        == CURRENT[1:3]
    )


def test_what_peers_and_clients_of_the_reference_read_stays_the_changelog(places):
    assert _offsets(_get(places, "/cities/tail").json()["data"]) == EVERY
    files = _get(places, "/cities/files").json()
    assert sum(each["records"] for each in files["files"]) == len(EVERY)
    assert files["hasRetractions"] is True
    assert _get(places, "/plain/files").json()["hasRetractions"] is False
    first = files["files"][-1]["block"]
    assert _get(places, "/cities/files", at=first).json()["hasRetractions"] is False


@pytest.mark.parametrize(
    ("table", "offsets"),
    [('"cities"', CURRENT), ('"cities@facts"', CURRENT), ('"cities@changelog"', EVERY)],
)
def test_a_table_of_a_query_is_what_its_name_says(places, table, offsets):
    query = f'select * from {table} order by "offset"'
    assert [row["offset"] for row in _ask(places, query)["output"]["data"]] == offsets
    linked = _get(places, "/query", query=query, format="JsonAoS").json()
    assert [row["offset"] for row in linked["output"]["data"]] == offsets
    assert _ask(places, COUNT + table)["output"]["data"] == [{"n": len(offsets)}]


def test_one_query_may_compare_current_rows_with_the_changelog(places):
    query = 'select count(*) as n from "cities@changelog" c left anti join cities f on c."offset"'
    assert _ask(places, query + ' = f."offset"')["output"]["data"] == [{"n": 4}]


def test_the_projection_of_a_request_says_what_names_mean(places):
    for name, count in (("changelog", 8), ("facts", 4), ("state", 4)):
        found = _ask(places, COUNT + "cities", projection=name, include=["Input"])
        assert found["output"]["data"] == [{"n": count}]
        named = None if name == "changelog" else name
        assert found["input"].get("projection") == named
    with places.service.http() as http:
        wrong = http.post("/query", json={"query": COUNT + "cities", "projection": "newest"})
    assert wrong.status_code == 400
    assert "one of changelog, state, facts" in wrong.json()["message"]


def test_as_of_a_block_before_rows_were_taken_back_all_rows_are_current(places):
    first = _get(places, "/cities/files").json()["files"][-1]["block"]
    dataset = _get(places, "/cities").json()["id"]
    pins = [{"id": dataset, "alias": "cities", "blockHash": first}]
    found = _ask(places, COUNT + "cities", datasets=pins, include=["Input"])
    assert found["output"]["data"] == [{"n": 3}]
    assert "projection" not in found["input"]


def test_a_proof_names_the_projection_where_it_matters_and_only_there(places):
    of_facts = _ask(places, COUNT + "cities", include=["Proof"])
    assert of_facts["input"]["projection"] == "facts"
    assert _verify(places, of_facts)["ok"] is True
    of_plain = _ask(places, COUNT + "plain", include=["Proof"])
    assert set(of_plain["input"]) == {
        "query",
        "queryDialect",
        "dataFormat",
        "include",
        "datasets",
        "skip",
        "limit",
    }
    assert _verify(places, of_plain)["ok"] is True


def test_a_proof_without_a_projection_is_of_the_changelog(places):
    """So were those of earlier versions and are those of the reference."""
    answer = _ask(places, COUNT + "cities", projection="changelog", include=["Proof"])
    assert answer["output"]["data"] == [{"n": 8}]
    assert "projection" not in answer["input"]
    assert _verify(places, answer)["ok"] is True


def test_a_proof_of_other_rows_is_refused(places):
    of_facts = _ask(places, COUNT + "cities", include=["Proof"])
    unnamed = {name: of_facts["input"][name] for name in of_facts["input"] if name != "projection"}
    refused = _verify(places, of_facts, input=unnamed)
    assert refused["error"]["kind"] == "InvalidRequest::InputHash"


@pytest.mark.parametrize("how", ["node", "verify", "folder"])
def test_frames_have_current_rows_and_every_row_by_name(places, how):
    where = places.folder if how == "folder" else places.url
    data = odf_node.open(where, verify=how == "verify")
    assert data.arrow()["offset"].to_pylist() == CURRENT
    assert list(data.pandas()["offset"]) == CURRENT
    assert data.polars()["offset"].to_list() == CURRENT
    assert [row[0] for row in data.duckdb().project('"offset"').order("1").fetchall()] == CURRENT
    with data.batches() as rows:
        assert rows.reader.read_all()["offset"].to_pylist() == CURRENT
    assert data.arrow(changelog=True)["offset"].to_pylist() == EVERY
    assert data.arrow(projection="changelog")["offset"].to_pylist() == EVERY
    assert data.arrow(filter="people:ge:3")["offset"].to_pylist() == [5]
    assert data.changes().rows["offset"].to_pylist() == EVERY
    with pytest.raises(BadInput, match="give one of them"):
        data.arrow(changelog=True, projection="state")


def _run(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("how", ["node", "folder"])
def test_commands_print_current_rows_and_every_row_by_name(places, how):
    where = str(places.folder) if how == "folder" else places.url
    assert _offsets(json.loads(_run("read", where, "--json"))) == CURRENT
    assert _offsets(json.loads(_run("read", where, "--json", "--changelog"))) == EVERY
    there = [where] if how == "folder" else ["--node", places.service.url]
    for table, count in (("cities", 4), ('"cities@changelog"', 8), ('"cities@facts"', 4)):
        told = json.loads(_run("sql", COUNT + table, *there, "--json"))
        assert told["output"]["data"] == [{"n": count}]


def test_pages_show_current_rows_and_link_the_changelog(places):
    with places.service.http() as http:
        http.headers["accept"] = "text/html"
        page = http.get("/cities").text
        rows = http.get("/cities?rows=0").text
        every = http.get("/cities?changelog=0").text
        asked = http.get("/cities", params={"query": COUNT + "cities"}).text
    assert "4 of them current" in page
    assert 'href="/cities?changelog=0"' in page
    assert "4 of 4 current rows" in rows
    assert "8 of 8 rows as they were recorded" in every
    assert "retracted" not in re.findall(r"<tbody>.*?</tbody>", rows, re.DOTALL)[0]
    assert "retracted" in re.findall(r"<tbody>.*?</tbody>", every, re.DOTALL)[0]
    assert re.search(r"<td[^>]*>4</td>", asked)


def test_catalogues_point_to_current_rows(places):
    told = _get(places, "/cities/croissant.json").json()
    [file] = told["distribution"]
    path = file["contentUrl"].removeprefix(places.service.url)
    assert pa.BufferReader(_get(places, path).content).size() > 0
    assert "projection=facts" in path
