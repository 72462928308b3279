"""The real clients of Iceberg read the rows that `GET …/read` reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from iceberg_clients import catalogue, duck, loaded, rows
from plain_values import plain
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, UnauthorizedError
from service import Service, serving
from table_made import ITEMS, TableMade, item

from odf_storage.stores.ports.values import Visibility

A, R, C, D = range(4)
WIDER = ITEMS.append(pa.field("added", pa.string()))
TOWNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])
ODD = pa.schema(
    [
        ("small", pa.uint8()),
        ("port", pa.uint16()),
        ("time", pa.time64("us")),
        ("fixed", pa.binary(3)),
        ("local", pa.timestamp("us")),
        ("fine", pa.timestamp("ns", "UTC")),
        ("deep", pa.list_(pa.list_(pa.decimal128(9, 3)))),
    ]
)


def town(city: str, pop: int | None) -> dict[str, Any]:
    return {"city": city, "pop": pop}


class Served:
    """A node with tables of many kinds."""

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
        self.odd = TableMade(stores, "alice/odd", ODD)
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
        return rows(pa.ipc.open_stream(answer.content).read_all())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("node"), tenancy="multi") as service:
        yield Served(service)


@pytest.fixture(scope="module")
def catalog(served: Served) -> Catalog:
    return catalogue(served.service, served.token)


def test_the_catalogue_lists_what_its_token_may_read_and_nothing_else(served, catalog):
    assert catalog.list_namespaces() == [("alice",), ("bob",)]
    assert catalog.list_tables("bob") == [("bob", "open")]
    names = [name for _, name in catalog.list_tables("alice")]
    assert sorted(names) == ["empty", "many_items", "odd", "towns"]
    assert catalog.table_exists("alice.towns")
    assert not catalog.table_exists("bob.closed")
    assert catalog.namespace_exists("bob")
    assert not catalog.namespace_exists("carol")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("bob.closed")
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("carol")


def test_rows_that_were_only_added_are_read_with_a_column_that_came_later(served, catalog):
    assert loaded(catalog, "alice.many_items") == served.read(served.items)
    assert loaded(catalog, "Alice.Many_Items") == served.read(served.items)


def test_public_data_takes_no_token_and_private_data_does(served):
    catalogue(served.service, None, auth={"type": "noop"}).load_table("bob.open")
    stranger = catalogue(served.service, None)
    assert stranger.list_namespaces() == [("bob",)]
    assert loaded(stranger, "bob.open") == served.read(served.open)
    with pytest.raises(NoSuchTableError):
        stranger.load_table("alice.towns")
    with pytest.raises(UnauthorizedError):
        catalogue(served.service, "ka_of_nobody")


def test_rows_taken_back_are_not_there(served, catalog):
    facts = served.read(served.towns, projection="facts")
    assert len(facts) == 4
    assert loaded(catalog, "alice.towns") == facts


def test_other_views_are_other_warehouses(served):
    by_state = catalogue(served.service, served.token, warehouse="state")
    state = served.read(served.towns, projection="state")
    assert loaded(by_state, "alice.towns") == state
    by_changelog = catalogue(served.service, served.token, warehouse="changelog")
    changelog = served.read(served.towns, projection="changelog")
    assert loaded(by_changelog, "alice.towns") == changelog
    with pytest.raises(Exception, match="primary key"):
        by_state.load_table("bob.open")


@pytest.mark.parametrize(
    ("warehouse", "projection"),
    [("default", "facts"), ("state", "state"), ("changelog", "changelog")],
)
def test_every_earlier_snapshot_has_the_earlier_rows(served, warehouse, projection):
    catalog = catalogue(served.service, served.token, warehouse=warehouse)
    table, made = catalog.load_table("alice.towns"), served.towns
    blocks = [block for block in made.blocks if getattr(block.event, "new_data", None)]
    snapshots = table.snapshots()
    assert len(snapshots) == len(blocks) == 4
    for block, snapshot in zip(blocks, snapshots, strict=True):
        expected = served.read(made, projection=projection, asAt=str(block.hash))
        found = rows(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())
        assert found == expected
        assert snapshot.summary["odf.block"] == str(block.hash)
        at_ms = block.block.system_time.millis
        assert table.snapshot_as_of_timestamp(at_ms).snapshot_id == snapshot.snapshot_id


def test_an_earlier_snapshot_has_the_earlier_columns_under_the_same_ids(catalog):
    table = catalog.load_table("alice.many_items")
    first, last = table.snapshots()[0], table.current_snapshot()
    old, new = table.schemas()[first.schema_id], table.schemas()[last.schema_id]
    assert [field.name for field in new.fields[:-1]] == [field.name for field in old.fields]
    assert new.fields[:-1] == old.fields
    assert new.fields[-1].field_id > old.highest_field_id
    found = table.scan(snapshot_id=first.snapshot_id).to_arrow()
    assert "added" not in found.column_names


def test_columns_are_chosen_and_filters_open_only_what_they_need(served, catalog):
    table = catalog.load_table("alice.many_items")
    found = table.scan(row_filter="offset >= 9", selected_fields=("offset", "id"))
    assert found.to_arrow().sort_by("offset").to_pylist() == [
        {"offset": 9, "id": 9},
        {"offset": 10, "id": 10},
    ]
    assert len(list(found.plan_files())) == 1
    assert len(list(table.scan(row_filter="offset < 5").plan_files())) == 1
    newest = served.items.blocks[-1].block.system_time.millis
    late = pa.scalar(newest, pa.timestamp("ms", "UTC")).as_py()
    assert late.tzinfo is not None
    some = table.scan(row_filter=f"system_time >= '{(late - timedelta(seconds=1)).isoformat()}'")
    assert len(list(some.plan_files())) == 1
    assert some.to_arrow().num_rows == 2


def test_types_of_many_kinds_are_read_as_they_are(served, catalog):
    if not served.odd.parts:
        served.odd.add(
            [
                {
                    "small": 200,
                    "port": 60_000,
                    "time": 86_399_999_999,
                    "fixed": b"abc",
                    "local": 1_700_000_000_123_456,
                    "fine": 1_700_000_000_123_456_000,
                    "deep": [[1, None], None, []],
                },
                dict.fromkeys(ODD.names),
            ]
        )
    assert loaded(catalog, "alice.odd") == served.read(served.odd)
    upper = catalog.load_table("alice.odd").scan(row_filter="port > 50000 and small > 130")
    assert len(upper.to_arrow()) == 1


def test_files_of_a_table_are_listed_with_all_that_a_client_asks_of_them(catalog):
    inspect = catalog.load_table("alice.towns").inspect
    assert (inspect.data_files().num_rows, inspect.delete_files().num_rows) == (4, 3)
    assert inspect.files().num_rows == inspect.entries().num_rows == 7
    assert inspect.files()["column_sizes"].to_pylist() == [[]] * 7
    assert inspect.manifests().num_rows == 2
    assert inspect.partitions().num_rows == 1


def test_a_dataset_without_rows_has_its_columns(catalog):
    table = catalog.load_table("alice.empty")
    assert table.current_snapshot() is None
    found = table.scan().to_arrow()
    assert found.column_names == ["offset", "op", "system_time", "event_time", *ITEMS.names]
    assert found.num_rows == 0


def test_new_rows_are_there_with_their_block(served, catalog):
    before = len(catalog.load_table("bob.open").snapshots())
    served.open.add([town("y", before)])
    assert len(catalog.load_table("bob.open").snapshots()) == before + 1
    assert loaded(catalog, "bob.open") == served.read(served.open)


def test_the_client_changes_nothing(served, catalog):
    before = served.read(served.open)
    table = catalog.load_table("bob.open")
    with pytest.raises(Exception, match="ACCESS_DENIED"):
        table.append(table.scan().to_arrow())
    with pytest.raises(NotImplementedError):
        catalog.drop_table("bob.open")
    assert served.read(served.open) == before


def test_duckdb_reads_rows_as_of_a_snapshot_too(served, catalog):
    with duck(served.service, served.token) as db:
        found = db.execute('FROM odf.alice.towns ORDER BY "offset"').to_arrow_table()
        assert rows(found) == served.read(served.towns, projection="facts")
        found = db.execute("FROM odf.alice.many_items").to_arrow_table()
        assert rows(found) == served.read(served.items)
        first = catalog.load_table("alice.towns").snapshots()[0].snapshot_id
        found = db.execute(f"FROM odf.alice.towns AT (VERSION => {first})").to_arrow_table()
        assert len(rows(found)) == 3
        assert len(db.execute("FROM iceberg_snapshots(odf.alice.towns)").fetchall()) == 4
    with duck(served.service, None) as db:
        assert db.execute("SELECT count(*) FROM odf.bob.open").fetchone()[0] >= 1


@pytest.mark.parametrize("reader", ["native", "pyiceberg"])
def test_polars_reads_rows_with_the_keys_of_the_table(served, catalog, reader, monkeypatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    for name, made in (("alice.towns", served.towns), ("alice.many_items", served.items)):
        table = catalog.load_table(name)
        keys = {key: text for key, text in table.io.properties.items() if key.startswith("s3.")}
        found = pl.scan_iceberg(table, reader_override=reader, storage_options=keys).collect()
        expected = served.read(made, projection="facts")
        told = [[plain(value) for value in row] for row in found.sort("offset").rows()]
        assert len(told) == len(expected)
        assert [row[0] for row in told] == [row[0] for row in expected]
