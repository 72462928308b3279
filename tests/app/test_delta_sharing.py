"""The real client of Delta Sharing reads the rows that `GET …/read` reads."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from plain_values import plain
from refusals import refusing
from service import Service, serving
from sharing_client import ClientFailed, SharingClient, sharing_client
from table_made import ITEMS, TableMade, item

from odf_node.service.sharing.lines import Capabilities
from odf_storage.stores.ports.values import Visibility

A, R, C, D = range(4)
WIDER = ITEMS.append(pa.field("added", pa.string()))
TOWNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])


def town(city: str, pop: int | None) -> dict[str, Any]:
    return {"city": city, "pop": pop}


class Served:
    """A node with tables of both kinds."""

    def __init__(self, service: Service) -> None:
        self.service, stores = service, service.node.stores
        self.token = service.token("alice")
        self.items = TableMade(stores, "alice/many.items", ITEMS)
        self.items.add([item(number) for number in range(5)])
        self.items.add([item(number) for number in range(5, 9)])
        self.items.declare(WIDER)
        self.items.add([item(9, added="x"), item(10, added=None)])
        self.towns = TableMade(stores, "alice/towns", TOWNS, key=["city"])
        self.towns.add([town("a", 1000), town("b", 2000), town("c", None)])
        self.towns.add([town("b", 2000), town("b", 2500), town("d", 7)], [C, D, A])
        self.towns.add([town("a", 1000)], [R])
        self.towns.add([town("e", 1)])
        self.open = TableMade(stores, "bob/open", TOWNS, visibility=Visibility.PUBLIC)
        self.open.add([town("x", 1)])
        self.closed = TableMade(stores, "bob/closed", TOWNS)
        self.empty = TableMade(stores, "alice/empty", ITEMS)

    def read(self, made: TableMade, **asked: Any) -> list[list[Any]]:
        """Rows by `GET …/read`, each with its columns in order."""
        with self.service.http(self.token) as http:
            path = f"/{made.entry.alias}/read"
            answer = http.get(path, params={"format": "arrow", "projection": "changelog", **asked})
        assert answer.status_code == 200, answer.text
        table = pa.ipc.open_stream(answer.content).read_all()
        return [[plain(value) for value in row.values()] for row in table.to_pylist()]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("node"), tenancy="multi") as service:
        yield Served(service)


@pytest.fixture(scope="module")
def client(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharingClient]:
    folder: Path = tmp_path_factory.mktemp("client")
    with sharing_client(served.service, served.token, folder) as client:
        yield client


def test_the_client_lists_what_its_token_may_read_and_nothing_else(client):
    tables = client.tables()
    assert {(share, name) for share, _, name in tables} == {
        ("alice", "many_items"),
        ("alice", "towns"),
        ("alice", "empty"),
        ("bob", "open"),
    }
    assert {schema for _, schema, _ in tables} == {"default", "changelog", "state"}


@pytest.mark.parametrize("is_delta", [None, True, False])
def test_rows_that_were_only_added_are_read_in_both_forms(served, client, is_delta):
    for table, made in (
        ("alice.default.many_items", served.items),
        ("bob.default.open", served.open),
    ):
        assert client.load(table, use_delta_format=is_delta)["rows"] == served.read(made)


def test_names_are_found_in_any_case(client, served):
    assert client.load("Alice.DEFAULT.Many_Items")["rows"] == served.read(served.items)


def test_new_rows_are_there_with_their_block(client, served):
    before = client.version("bob.default.open")
    served.open.add([town("y", before)])
    assert client.version("bob.default.open") == before + 1
    assert client.load("bob.default.open")["rows"] == served.read(served.open)


@pytest.mark.parametrize("is_delta", [True, False])
def test_an_earlier_version_has_the_earlier_rows(client, served, is_delta):
    table, made = "alice.default.many_items", served.items
    blocks = [block for block in made.blocks if getattr(block.event, "new_data", None)]
    for number, block in enumerate(blocks):
        found = client.load(table, version=number, use_delta_format=is_delta)
        assert found["rows"] == served.read(made, asAt=str(block.hash))
        time = str(block.block.system_time)
        assert client.load(table, timestamp=time, use_delta_format=is_delta) == found
        assert client.version(table, since=time) == number


def test_an_unknown_version_is_refused_at_once(client):
    for asked in ({"version": 99}, {"timestamp": "2001-01-01T00:00:00Z"}):
        start = time.monotonic()
        with pytest.raises(ClientFailed, match="INVALID_PARAMETER_VALUE"):
            client.load("alice.default.many_items", **asked)
        assert time.monotonic() - start < 60  # a client that asks again takes minutes


def test_rows_taken_back_are_not_there(client, served):
    facts = served.read(served.towns, projection="facts")
    assert len(facts) == 4
    assert client.load("alice.default.towns")["rows"] == facts
    assert client.load("alice.default.towns", use_delta_format=True)["rows"] == facts
    state = served.read(served.towns, projection="state")
    assert client.load("alice.state.towns")["rows"] == state
    assert client.load("alice.changelog.towns")["rows"] == served.read(served.towns)
    blocks = [block for block in served.towns.blocks if getattr(block.event, "new_data", None)]
    for number, block in enumerate(blocks):
        expected = served.read(served.towns, projection="facts", asAt=str(block.hash))
        found = client.load("alice.default.towns", version=number, use_delta_format=True)
        assert found["rows"] == expected


def test_rows_taken_back_are_never_shown_to_who_reads_plain_files(client):
    with pytest.raises(ClientFailed, match="use_delta_format=True"):
        client.load("alice.default.towns", use_delta_format=False)


@pytest.mark.parametrize("header", [None, "responseformat=delta;readerfeatures=deletionvectors"])
def test_of_a_table_that_no_form_can_tell_the_way_that_works_is_named(header):
    can = Capabilities.parse(header)
    with refusing("NotInDeltaFormat", match="'changelog' with use_delta_format=False"):
        can.form(has_dead_rows=True, foreign=["u16", "tm"])


def test_a_state_takes_a_primary_key(client):
    with pytest.raises(ClientFailed, match="primary key"):
        client.load("bob.state.open")


@pytest.mark.parametrize("is_delta", [None, True])
@pytest.mark.parametrize("schema", ["default", "changelog"])
def test_changes_are_counted_by_operation(client, served, is_delta, schema):
    found = client.changes(f"alice.{schema}.towns", starting_version=0, use_delta_format=is_delta)
    names = found["columns"]
    kinds = [row[names.index("_change_type")] for row in found["rows"]]
    op = [row[1] for row in served.read(served.towns)]
    known = ("insert", "delete", "update_preimage", "update_postimage")
    assert Counter(kinds) == Counter(known[code] for code in op)
    by_version = Counter(row[names.index("_commit_version")] for row in found["rows"])
    assert by_version == {0: 3, 1: 3, 2: 1, 3: 1}
    said = [[row[names.index("city")], row[names.index("pop")]] for row in found["rows"]]
    assert sorted(map(str, said)) == sorted(str(row[4:]) for row in served.read(served.towns))


@pytest.mark.parametrize("is_delta", [None, True])
def test_changes_of_some_versions(client, served, is_delta):
    found = client.changes(
        "alice.default.many_items", starting_version=1, ending_version=2, use_delta_format=is_delta
    )
    at = found["columns"].index("id")
    assert sorted(row[at] for row in found["rows"]) == [5, 6, 7, 8, 9, 10]


def test_changes_that_cannot_be_told_are_refused(client):
    for asked in (
        {"starting_version": 3, "ending_version": 1},
        {"starting_version": 99},
        {"starting_version": 0, "ending_version": 99},
    ):
        with pytest.raises(ClientFailed, match="INVALID_PARAMETER_VALUE"):
            client.changes("alice.default.towns", **asked)
    with pytest.raises(ClientFailed, match="changelog"):
        client.changes("alice.state.towns", starting_version=0)


@pytest.mark.parametrize("is_delta", [None, True, False])
def test_a_dataset_without_rows_has_its_columns(client, is_delta):
    found = client.load("alice.default.empty", use_delta_format=is_delta)
    assert found == {
        "columns": ["offset", "op", "system_time", "event_time", *ITEMS.names],
        "rows": [],
    }
    assert client.version("alice.default.empty") == 0


def test_a_limit_takes_the_files_it_needs(client, served):
    assert client.load("alice.default.many_items", limit=6)["rows"] == served.read(served.items)[:6]


def hint(op: str, column: str, value: str, kind: str) -> dict[str, Any]:
    literal = {"op": "literal", "value": value, "valueType": kind}
    named = {"op": "column", "name": column, "valueType": kind}
    return {"op": op, "children": [named, literal]}


def test_hints_of_the_client_leave_out_files_that_hold_no_wanted_row(client, served):
    """The client of Python shows the rows of all files that it is told."""
    table, rows = "alice.default.many_items", served.read(served.items)
    early = hint("lessThan", "offset", "5", "long")
    late = hint("greaterThanOrEqual", "offset", "9", "long")
    asked = {"jsonPredicateHints": json.dumps({"op": "or", "children": [early, late]})}
    for is_delta in (False, None):
        assert client.load(table, use_delta_format=is_delta, **asked)["rows"] == rows[:5] + rows[9:]
    for hints in (["offset >= 5", "9 > offset"], ["offset = 6 ", "name > 'a'", "no sql"]):
        assert client.load(table, predicateHints=hints)["rows"] == rows[5:9]


def test_a_hint_and_a_limit_together_lose_no_file(client, served):
    """Nobody knows in how many files so many wanted rows are."""
    asked = json.dumps(hint("greaterThan", "id", "0", "long"))
    found = client.load("alice.default.many_items", limit=6, jsonPredicateHints=asked)
    assert found["rows"] == served.read(served.items)[:6]
