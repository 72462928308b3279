"""The lake of a node: DuckDB attaches it and reads what `GET …/read` reads, as of any block."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ducklake_clients import duck, found, lake
from service import Service, serving
from table_made import ITEMS, TableMade, item

from odf_node.service.accounts.accounts import ensure_account
from odf_node.service.ducklake.columns import LakeColumns
from odf_node.service.ducklake.taken_back import TakenBack
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.delta.vectors import portable
from odf_storage.datasets.versions.dead_rows import Bitmap
from odf_storage.stores.ports.values import Role, Visibility

A, R, C, D = range(4)
TOWNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])
GONE = "urn:odf-node:problem:NoSuchLake"
PUBLIC = Visibility.PUBLIC


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node"), tenancy="multi") as service:
        yield service


def town(city: str, pop: int = 1) -> dict[str, Any]:
    return {"city": city, "pop": pop}


def made(service: Service, alias: str, columns: pa.Schema = TOWNS, **given: Any) -> TableMade:
    return TableMade(service.node.stores, alias, columns, **given)


def read(service: Service, alias: str, token: str | None = None, **asked: Any) -> int:
    """How many rows the node itself reads."""
    with service.http(token) as http:
        answer = http.get(f"/{alias}/read", params={"format": "json", "limit": 10_000, **asked})
    assert answer.status_code == 200, answer.text
    return len(answer.json())


def counted(db: Any, table: str, at: object = None) -> int:
    when = "" if at is None else f" AT (VERSION => {at})"
    [[count]] = found(db, f"SELECT count(*) FROM (FROM odf.{table}{when}) t")
    return count


def test_rows_are_those_of_read_as_of_every_block(service):
    alice = service.token("alice")
    items = made(service, "alice/items", ITEMS)
    for at in range(6):
        items.add([item(2 * at), item(2 * at + 1)])
    items.add([item(3), item(4)], [R, R])
    items.add([item(20)])
    items.add([item(5), item(5, weight=9.5)], [C, D])
    made(service, "alice/others").add([town("x")])
    with duck(service, alice) as db:
        names = "id, price, day, seen, tags, place, name, weight, open"
        rows = found(db, f'SELECT {names} FROM odf.alice.items ORDER BY "offset"')
        assert rows[1][:2] == [1, "1.25"]
        assert rows[1][4:6] == [["a", None, "1"], {"city": "c1", "zip": 1}]
        assert [row[0] for row in rows] == [0, 1, 2, 6, 7, 8, 9, 10, 11, 20, 5]
        assert rows[-1][7] == 9.5
        blocks = dict(
            found(
                db,
                "SELECT commit_message, snapshot_id FROM ducklake_snapshots('odf')"
                " WHERE author = 'alice/items'",
            )
        )
        assert len(blocks) == 9
        for block, snapshot in blocks.items():
            for name, projection in (("items", "facts"), ("items@changelog", "changelog")):
                wanted = read(service, "alice/items", alice, asAt=block, projection=projection)
                assert counted(db, f'alice."{name}"', snapshot) == wanted
        with_filter = "SELECT id FROM odf.alice.items WHERE price > 5 AND place.city <> 'c8'"
        assert sorted(found(db, with_filter)) == [[5], [7], [10], [11], [20]]


def test_what_changed_between_two_blocks_is_asked_for_as_duckdb_does(service):
    towns = made(service, "bob/towns", visibility=PUBLIC)
    towns.add([town("a"), town("b")])
    towns.add([town("a")], [R])
    with duck(service) as db:
        [[last]] = found(db, "SELECT max(snapshot_id) FROM ducklake_snapshots('odf')")
        asked = f"ducklake_table_changes('odf', 'bob', 'towns', {last}, {last})"
        kinds = found(db, f"SELECT change_type, rowid, city FROM {asked} ORDER BY ALL")
    assert ["delete", 0, "a"] in kinds
    assert [row for row in kinds if row[1] == 1] == []


def test_columns_come_with_their_block_and_are_null_before_it(service):
    grows = made(service, "carol/grows", visibility=PUBLIC)
    grows.add([town("a")])
    inner = pa.struct([("x", pa.int64())])
    grows.declare(pa.schema([("new", inner), *TOWNS]))
    grows.add([{"new": {"x": 1}, **town("b")}])
    grows.declare(pa.schema([*TOWNS, ("new", pa.struct([("y", pa.string()), *inner]))]))
    grows.add([{"new": {"x": 2, "y": "z"}, **town("c")}])
    with duck(service) as db:
        found_now = found(db, 'SELECT city, "new", pop FROM odf.carol.grows ORDER BY 1')
        none = [None, {"y": None, "x": None}]
        assert found_now[0][:1] + found_now[0][2:] == ["a", 1]
        assert found_now[0][1] in none
        assert [row[1] for row in found_now[1:]] == [{"y": None, "x": 1}, {"y": "z", "x": 2}]
        snapshots = found(
            db,
            "SELECT snapshot_id FROM ducklake_snapshots('odf') WHERE author = 'carol/grows'"
            " ORDER BY 1",
        )
        columns = []
        for [snapshot] in snapshots:
            db.execute(f"FROM odf.carol.grows AT (VERSION => {snapshot}) LIMIT 0")
            columns.append([each[0] for each in db.description][4:])
    assert columns == [["city", "pop"], ["new", "city", "pop"], ["city", "pop", "new"]]


def test_a_reader_that_knows_no_rows_taken_back_refuses_the_copy_of_a_lake(service, tmp_path):
    """Some names of columns are those of the table that makes it refuse."""
    reader = pytest.importorskip("polars_ducklake")
    pytest.importorskip("duckdb_engine", reason="needs duckdb-engine")
    columns = pa.schema([("Row_id", pa.int64()), ("a b", pa.int64())])
    rows = [{"Row_id": 1, "a b": 2}, {"Row_id": 2, "a b": 2}]
    for name in ("kept", "taken"):
        table = made(service, f"lena/{name}", columns, visibility=PUBLIC)
        table.add(rows)
    table.declare(pa.schema([("s", pa.struct([("x", pa.int64())])), *columns]))
    table.add([{"s": {"x": 1}, "Row_id": 3, "a b": 4}])
    table.add([{"s": None, **rows[0]}], [R])
    told = lake(service, account="lena")
    with duck(service, attach=told["attach"]) as db:
        [[last]] = found(db, "SELECT max(snapshot_id) FROM ducklake_snapshots('odf')")
        asked = 'SELECT "Row_id" FROM odf.lena.taken'
        assert found(db, f"{asked} AT (VERSION => {last - 1}) ORDER BY 1") == [[1], [2], [3]]
        assert found(db, f'{asked} WHERE s.x = 1 OR "a b" = 2 ORDER BY 1') == [[2], [3]]
        changes = f"FROM ducklake_table_changes('odf', 'lena', 'taken', 0, {last})"
        kinds = [row[2] for row in found(db, f"{changes} WHERE change_type <> 'insert'")]
        assert sorted(kinds) == ["delete", "update_postimage", "update_preimage"]
    file = tmp_path / "copied.ducklake"
    with service.http() as http:
        file.write_bytes(http.get(told["catalogue"]).content)

    def alone(name: str) -> int:
        copy = reader.scan_ducklake(f"duckdb:///{file}", name, schema="lena")
        return copy.select("a b").collect().height

    assert alone("kept") == 2
    assert alone("taken@changelog") == 4
    with pytest.raises(NotImplementedError, match="inlined data"):
        alone("taken")


def test_one_dataset_that_no_lake_shows_is_left_out_and_said(service):
    case = pa.schema([("a", pa.int64()), ("A", pa.int64())])
    made(service, "dora/case", case, visibility=PUBLIC).add([{"a": 1, "A": 2}])
    wide = pa.schema([("n", pa.int64()), ("d", pa.decimal256(50, 2)), ("t", pa.time64("ns"))])
    kept = made(service, "dora/wide", wide, visibility=PUBLIC)
    kept.add([{"n": 1, "d": None, "t": None}])
    told = {(each["dataset"], each["part"]) for each in lake(service, account="dora")["leftOut"]}
    assert told == {("dora/case", "*"), ("dora/wide", "column d"), ("dora/wide", "column t")}
    with duck(service, attach=lake(service, account="dora")["attach"]) as db:
        assert found(db, "SELECT n FROM odf.dora.wide") == [[1]]
        shown = found(db, "SELECT dataset, part FROM odf.main.left_out")
        assert {tuple(row) for row in shown} == told
        [[why]] = found(db, "SELECT reason FROM odf.main.left_out WHERE dataset = 'dora/case'")
        assert "case only" in why


def test_a_dataset_without_rows_is_an_empty_table(service):
    made(service, "erik/empty", visibility=PUBLIC)
    with duck(service, attach=lake(service, account="erik")["attach"]) as db:
        assert found(db, 'FROM odf.erik."empty"') == []
        assert found(db, "FROM odf.main.left_out") == []
        assert found(db, "SHOW TABLES FROM odf.erik") == [["empty"], ["empty@changelog"]]


def test_names_of_any_case_and_with_points_are_tables(service):
    made(service, "Main/com.Example.2-x", visibility=PUBLIC).add([town("a")])
    with duck(service, attach=lake(service, account="main")["attach"]) as db:
        assert counted(db, 'main."com.Example.2-x"') == 1
        assert counted(db, 'MAIN."COM.EXAMPLE.2-X@changelog"') == 1


def names_in(told: dict[str, Any], service: Service, token: str | None) -> set[str]:
    with duck(service, token, attach=told["attach"]) as db:
        listed = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'odf'"
        rows = found(db, listed)
    return {"/".join(row) for row in rows if not row[1].endswith("@changelog")}


def test_a_lake_shows_what_its_caller_may_read_and_nothing_else(service):
    made(service, "fred/open", visibility=PUBLIC).add([town("a")])
    hidden = made(service, "fred/hidden")
    hidden.add([town("b")])
    owner, stranger = service.token("fred"), service.token("greta")
    both, one = {"fred/open", "fred/hidden"}, {"fred/open"}
    mine = lake(service, owner, account="fred")
    for token, wanted in ((owner, both), (stranger, one), (None, one)):
        assert names_in(lake(service, token, account="fred"), service, token) == wanted
    stores = service.node.stores
    greta = ensure_account(stores.accounts, "greta", os.urandom)
    stores.roles.put(hidden.entry.id, greta.id, Role.READER)
    deadline = time.monotonic() + 60
    while lake(service, stranger, account="fred")["datasets"] != 2:
        assert time.monotonic() < deadline
    assert names_in(lake(service, stranger, account="fred"), service, stranger) == both
    for token in (None, service.token("hans")):
        with service.http(token) as http:
            refused = http.get(mine["catalogue"])
            assert (refused.status_code, refused.json()["type"]) == (404, GONE)
            assert "hidden" not in refused.text


def test_a_right_that_is_taken_away_closes_the_lake_soon(service):
    hidden = made(service, "ida/hidden")
    hidden.add([town("b")])
    stores = service.node.stores
    token = service.token("jan")
    jan = ensure_account(stores.accounts, "jan", os.urandom)
    stores.roles.put(hidden.entry.id, jan.id, Role.READER)
    with service.http(token) as http:
        told = lake(service, token, account="ida")
        assert http.get(told["catalogue"]).status_code == 200
        stores.roles.remove(hidden.entry.id, jan.id)
        deadline = time.monotonic() + 60
        while http.head(told["catalogue"]).status_code != 404:
            assert time.monotonic() < deadline


def test_bad_tokens_are_told(service):
    with service.http("ka_of_nobody") as stranger:
        for path in ("/ducklake", f"/ducklake/{'0' * 64}.ducklake"):
            assert stranger.get(path).status_code == 401


def test_a_catalogue_never_changes_under_its_address_while_heads_move(service):
    moves = made(service, "kai/moves", visibility=PUBLIC)
    moves.add([town("a")])
    told = lake(service, account="kai")
    with service.http() as http, duck(service, attach=told["attach"]) as db:
        before = http.get(told["catalogue"])
        moves.add([town("b")])
        assert lake(service, account="kai")["catalogue"] != told["catalogue"]
        assert counted(db, "kai.moves") == 1
        after = http.get(told["catalogue"])
        assert after.content == before.content
        assert "immutable" in after.headers["cache-control"]
        assert after.headers["etag"] == before.headers["etag"]
        assert not after.headers["etag"].startswith("W/")
        head = http.head(told["catalogue"])
        assert head.headers["content-length"] == str(len(after.content))
        part = http.get(told["catalogue"], headers={"range": "bytes=8-11"})
        assert (part.status_code, part.content) == (206, b"DUCK")
        assert part.headers["etag"] == head.headers["etag"] == after.headers["etag"]
    assert lake(service, account="kai") == lake(service, account="kai")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/ducklake/{'0' * 64}.ducklake", 404),
        ("GET", f"/ducklake/{'0' * 64}.ducklake.wal", 404),
        ("GET", "/ducklake/x", 404),
        ("GET", "/ducklake/a/b", 404),
        ("POST", "/ducklake/x", 406),
        ("GET", "/ducklake?acount=x", 400),
        ("GET", f"/ducklake?account={'x' * 401}", 400),
    ],
)
def test_what_is_no_lake_is_refused(service, method, path, status):
    with service.http() as http:
        answer = http.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]


def test_a_lake_says_what_its_limits_leave_out(tmp_path, monkeypatch):
    limits = {"DATASETS": 3, "SLICES": 4, "DELETED_ROWS": 1, "KEPT": 1}
    for name, value in limits.items():
        monkeypatch.setenv(f"ODF_DUCKLAKE_{name}", str(value))
    with serving(tmp_path) as service:
        long = made(service, "kamu/a-long", visibility=PUBLIC)
        for at in range(5):
            long.add([town(str(at))])
        gone = made(service, "kamu/b-gone", visibility=PUBLIC)
        gone.add([town("a"), town("b")])
        gone.add([town("a"), town("b")], [R, R])
        made(service, "kamu/c-last", visibility=PUBLIC).add([town("a")])
        first = lake(service)
        told = {(each["dataset"], each["part"]): each["reason"] for each in first["leftOut"]}
        assert set(told) == {("kamu/a-long", "*"), ("kamu/b-gone", "current rows")}
        with duck(service) as db:
            assert counted(db, 'kamu."b-gone@changelog"') == 4
            assert found(db, "SHOW TABLES FROM odf.kamu")[0] == ["b-gone@changelog"]
        made(service, "kamu/d-more", visibility=PUBLIC)
        assert [each["dataset"] for each in lake(service)["leftOut"]][-1:] != ["kamu/d-more"]
        assert "*" in {each["dataset"] for each in lake(service)["leftOut"]}
        with service.http() as http:
            assert http.get(first["catalogue"]).status_code == 404


def test_many_blocks_that_take_rows_back_are_looked_at_in_steps(tmp_path):
    with serving(tmp_path, DUCKLAKE_STEPS=2) as service:
        towns = made(service, "kamu/towns", visibility=PUBLIC)
        towns.add([town(str(at)) for at in range(9)])
        for at in range(5):
            towns.add([town(str(at))], [R])
        parts = [[each["part"] for each in lake(service)["leftOut"]] for _ in range(3)]
        assert parts == [["current rows"], ["current rows"], []]
        with duck(service) as db:
            counts = [counted(db, "kamu.towns", at) for at in range(7)]
        assert counts == [0, 9, 8, 7, 6, 5, 4]


def test_a_damaged_dataset_is_left_out_and_harms_no_other(tmp_path):
    with serving(tmp_path) as service:
        whole = made(service, "kamu/whole", visibility=PUBLIC)
        whole.add([town("a")])
        broken = made(service, "kamu/broken", visibility=PUBLIC)
        part = broken.add([town("b")])
        name = str(part.physical_hash)
        [file] = [each for each in tmp_path.rglob(name) if each.is_file()]
        file.write_bytes(b"x" * file.stat().st_size)
        assert [each["dataset"] for each in lake(service)["leftOut"]] == ["kamu/broken"]
        with duck(service) as db:
            assert counted(db, "kamu.whole") == 1


def test_a_node_without_duckdb_says_what_to_install(tmp_path, monkeypatch):
    from odf_storage.runtime import extras

    with serving(tmp_path) as service, service.http() as http:
        monkeypatch.setattr(extras, "find_spec", lambda name: None)
        answer = http.get("/ducklake")
    assert "odf-node[ducklake]" in answer.text or answer.status_code == 501


def test_rows_taken_back_keep_the_version_that_first_did_it():
    def dead(*positions: int) -> Bitmap:
        return Bitmap(portable(np.array(positions, np.int64)), len(positions))

    known = TakenBack(epoch="")
    known = known.continued(3, {"a": dead(1, 5)})
    known = known.continued(7, {"a": dead(1, 2, 5), "b": dead(0)})
    assert [each.tolist() for each in known.of("a")] == [[1, 5, 2], [3, 3, 7]]
    assert [each.tolist() for each in known.of("b")] == [[0], [7]]
    assert known.count == 4


def test_members_of_structs_that_differ_by_case_leave_their_column_out():
    inner = pa.struct([("x", pa.int64()), ("X", pa.int64())])
    schema = from_arrow(pa.schema([("a", pa.int64()), ("s", inner), ("e", pa.struct([]))]))
    columns = LakeColumns([(0, schema)])
    assert [each.column.name for each in columns.all] == ["a"]
    assert set(columns.notes) == {"s", "e"}
    with pytest.raises(ValueError, match="no column"):
        LakeColumns([(0, from_arrow(pa.schema([("s", inner)])))])
