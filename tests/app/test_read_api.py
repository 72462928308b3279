"""Reading rows as of some time, in every format, over HTTP and from the command line."""

from __future__ import annotations

import csv
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from refusals import refusing
from service import NOON, SCHEMA, Chain, Service, described, seeded, serving

from odf_node.cli.main import main
from odf_node.service.read.read import ReadRequest
from odf_node.service.read.tail import Tails, tail_task
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import AddPushSource, SetDataSchema
from odf_protocol.metadata.sources import MergeStrategySnapshot, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read.formats import Format, encoded
from odf_storage.datasets.read.records import DataFormat, values
from odf_storage.datasets.read.rows import Projection
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind, Visibility

KEYED = AddPushSource(
    source_name="default",
    read=ReadStepNdJson(),
    merge=MergeStrategySnapshot(primary_key=("city",)),
)


@pytest.fixture
def service(tmp_path: Path) -> Any:
    with serving(tmp_path / "node") as service:
        yield service


@pytest.fixture
def city() -> Chain:
    chain = seeded().add(described(), KEYED, SetDataSchema(schema=SCHEMA))
    return chain.add_rows(3).add_rows(4)


@pytest.fixture
def entry(service: Service, city: Chain) -> DatasetEntry:
    return service.keep(city, "kamu/city", Visibility.PUBLIC)


@pytest.fixture
def folder(city: Chain, tmp_path: Path) -> str:
    objects = FolderObjects(tmp_path / "copy")
    for block in city.blocks:
        objects.put(ObjectKind.BLOCK, block.hash, [block.raw])
    for (kind, name), content in city.objects.items():
        objects.put(kind, name, [content])
    objects.write_ref("head", city.head)
    return str(tmp_path / "copy")


def decoded(form: str, content: bytes) -> list[dict[str, Any]]:
    match form:
        case "csv":
            return list(csv.DictReader(io.StringIO(content.decode())))
        case "ndjson":
            return [json.loads(line) for line in content.splitlines()]
        case "json":
            return list(json.loads(content))
        case "parquet":
            return pq.read_table(io.BytesIO(content)).to_pylist()
        case _:
            return pa.ipc.open_stream(content).read_all().to_pylist()


@pytest.mark.parametrize("form", [form.value for form in Format if form is not Format.GEOPARQUET])
def test_every_format_holds_the_same_rows(service: Service, entry: DatasetEntry, form: str) -> None:
    with service.http() as client:
        answer = client.get("/city/read", params={"format": form, "columns": "offset,city"})
    rows = decoded(form, answer.content)
    assert [(int(row["offset"]), row["city"]) for row in rows] == [(n, f"c{n}") for n in range(7)]
    assert list(rows[0]) == ["offset", "city"]


def test_the_answer_names_the_block_and_gives_the_same_again_for_it(
    service: Service, city: Chain, entry: DatasetEntry
) -> None:
    before = str(city.blocks[4].hash)
    with service.http() as client:
        now = client.get("/city/read")
        then = client.get("/city/read", params={"asAt": before})
    assert now.headers["odf-block"] == str(city.head)
    assert now.headers["content-type"] == "application/x-ndjson"
    assert then.headers["odf-block"] == before
    assert (len(now.content.splitlines()), len(then.content.splitlines())) == (7, 3)
    assert json.loads(then.content.splitlines()[0]) == {
        "offset": 0,
        "op": 0,
        "system_time": str(NOON),
        "event_time": str(NOON),
        "city": "c0",
        "population": 0,
    }


def test_times_projections_and_parts(service: Service, entry: DatasetEntry) -> None:
    asked: list[tuple[dict[str, Any], int]] = [
        ({"asAt": "2049-01-01T00:00:00Z"}, 0),
        ({"asAt": str(NOON), "asOf": str(NOON)}, 7),
        ({"asOf": "2049-01-01T00:00:00Z"}, 0),
        ({"projection": "state"}, 7),
        ({"projection": "facts", "skip": 2}, 5),
        ({"skip": 1, "limit": 2}, 2),
        ({"limit": 0}, 0),
    ]
    with service.http() as client:
        found = [len(client.get("/city/read", params=p).content.splitlines()) for p, _ in asked]
    assert found == [count for _, count in asked]


def test_corrections_are_folded_unless_the_changelog_is_asked_for() -> None:
    when = str(NOON)
    assert ReadRequest().asked().projection is Projection.FACTS
    assert ReadRequest(as_at=when).asked().projection is Projection.FACTS
    assert ReadRequest(as_of=when).asked().projection is Projection.FACTS
    changes = ReadRequest(as_of=when, projection="changelog")
    assert changes.asked().projection is Projection.CHANGELOG


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"asAt": "yesterday"}, "InvalidTime"),
        ({"asOf": "f1620"}, "InvalidTime"),
        ({"projection": "future"}, "InvalidProjection"),
        ({"format": "xls"}, "InvalidProjection"),
        ({"columns": "mayor"}, "UnknownColumn"),
    ],
)
def test_what_makes_no_sense_is_refused(
    service: Service, entry: DatasetEntry, params: dict[str, str], error: str
) -> None:
    with service.http() as client:
        answer = client.get("/city/read", params=params)
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (400, error)


def test_a_block_of_another_dataset_is_not_found(service: Service, entry: DatasetEntry) -> None:
    with service.http() as client:
        assert client.get("/city/read", params={"asAt": "f1620" + "0" * 64}).status_code == 404


def test_a_dataset_without_a_key_has_no_state(service: Service) -> None:
    service.keep(seeded().add(SetDataSchema(schema=SCHEMA)).add_rows(1), "kamu/plain")
    with service.http() as client:
        answer = client.get("/plain/read", params={"projection": "state"})
    assert answer.status_code == 400
    assert answer.json()["type"].endswith(":DatasetHasNoPrimaryKeys")


def test_a_damaged_slice_is_a_problem_and_no_half_answer(
    service: Service, city: Chain, entry: DatasetEntry
) -> None:
    [first, *_] = [name for kind, name in city.objects if kind is ObjectKind.DATA]
    data = service.node.settings.data
    [path] = data.rglob(f"data/{first}")
    path.chmod(0o644)
    path.write_bytes(b"nonsense")
    with service.http() as client:
        answer = client.get("/city/read")
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (
        500,
        "ObjectDamaged",
    )
    assert answer.json()["hash"] == str(first)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("path", ["read", "read?projection=state", "tail?limit=100"])
def test_a_lost_slice_is_said_before_the_first_row(
    service: Service, city: Chain, entry: DatasetEntry, path: str, which: int
) -> None:
    names = [name for kind, name in city.objects if kind is ObjectKind.DATA]
    service.node.stores.objects.delete(ObjectKey(entry.id, ObjectKind.DATA, names[which]))
    with service.http() as client:
        answer = client.get(f"/city/{path}")
    assert answer.status_code == 500
    assert answer.json()["type"].endswith(":ObjectDamaged")
    assert (answer.json()["problem"], answer.json()["hash"]) == ("missing", str(names[which]))


def test_a_page_needs_the_slices_before_its_end_only(
    service: Service, city: Chain, entry: DatasetEntry
) -> None:
    *_, last = [name for kind, name in city.objects if kind is ObjectKind.DATA]
    service.node.stores.objects.delete(ObjectKey(entry.id, ObjectKind.DATA, last))
    with service.http() as client:
        page = "/city/read?projection=changelog&limit=2&skip="
        assert client.get(f"{page}1").status_code == 200
        assert client.get(f"{page}2").status_code == 500


def test_reads_are_limited_and_give_their_place_back(
    service: Service, entry: DatasetEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = service.node.settings.share_of(service.node.settings.readers)
    with service.http() as client:
        for _ in range(most + 2):
            assert client.get("/city/read", params={"limit": 1}).status_code == 200
            assert client.get("/city/read", params={"columns": "nobody"}).status_code == 400
            assert client.get("/city/tail").status_code == 200


def test_what_a_stranger_may_not_see_is_not_read(
    service: Service, city: Chain, tmp_path: Path
) -> None:
    with serving(tmp_path / "multi", tenancy="multi") as many:
        many.token("anna")
        many.keep(city, "anna/city", Visibility.PRIVATE)
        with many.http() as client:
            assert client.get("/anna/city/read").status_code == 404


def run(*words: str) -> Any:
    return CliRunner().invoke(main, ["read", *words])


def test_a_folder_and_a_url_are_read_alike(
    service: Service, entry: DatasetEntry, folder: str, city: Chain
) -> None:
    for where in (folder, f"{service.url}/city"):
        for extra in ((), ("--as-at", str(city.blocks[4].hash)), ("--projection", "state")):
            found = run(where, "--columns", "city", *extra)
            assert found.exit_code == 0, found.stderr
            rows = 3 if extra[:1] == ("--as-at",) else 7
            assert found.stdout.splitlines() == ["city", *(f"c{n}" for n in range(rows))]


def test_the_command_filters_rows(service: Service, entry: DatasetEntry, folder: str) -> None:
    for where in (folder, f"{service.url}/city"):
        some = ("--filter", "city:in:c1,c4,c6", "--filter", "offset:lt:6", "--columns", "city")
        assert run(where, *some).stdout.splitlines() == ["city", "c1", "c4"]
    assert run(folder, "--filter", "city:like:c").exit_code == 2
    assert run(folder, "--filter", "mayor:eq:c").exit_code == 2


def test_rows_go_to_a_file_and_json_is_a_format(folder: str, tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    assert run(folder, "--format", "parquet", "-o", str(target)).exit_code == 0
    assert pq.read_table(target).num_rows == 7
    assert len(json.loads(run(folder, "--json", "--limit", "2").stdout)) == 2


def test_wrong_usage_and_missing_datasets_have_their_exit_codes(
    folder: str, tmp_path: Path
) -> None:
    assert run(folder, "--as-of", "yesterday").exit_code == 2
    assert run(folder, "--format", "xls").exit_code == 2
    assert run(str(tmp_path / "nothing")).exit_code == 3


def rows_with(**columns: pa.Array) -> tuple[pa.Schema, Any]:
    table = pa.table(columns)
    return table.schema, iter(table.to_batches())


def test_cells_that_need_it_are_quoted_and_nulls_differ_from_empty_texts() -> None:
    schema, batches = rows_with(
        text=pa.array(['a,"b"\n', "", None]),
        flag=pa.array([True, None, False]),
        list=pa.array([[1, 2], [], None]),
    )
    written = b"".join(encoded(schema, batches, Format.CSV)).decode()
    assert written == 'text,flag,list\r\n"a,""b""\n",true,"[1,2]"\r\n"",,[]\r\n,false,\r\n'


def test_texts_that_begin_with_a_number_sign_are_quoted_and_so_no_comments(tmp_path: Path) -> None:
    """DuckDB 1.5.5 and 2.0.1 leave out lines that begin with # if the rest are numbers.

    In quotes the sign keeps its row (seen with read_csv, `findings/`).
    """
    houses = ["#12", "12", "#14", "1#5"]
    schema, batches = rows_with(house=pa.array(houses), n=pa.array([1, 2, 3, 4]))
    (tmp_path / "x.csv").write_bytes(b"".join(encoded(schema, batches, Format.CSV)))
    assert (tmp_path / "x.csv").read_text().split() == [
        "house,n",
        '"#12",1',
        "12,2",
        '"#14",3',
        "1#5,4",
    ]
    bare = [*houses[:3], "15"]
    schema, batches = rows_with(house=pa.array(bare), n=pa.array([1, 2, 3, 4]))
    (tmp_path / "y.csv").write_bytes(b"".join(encoded(schema, batches, Format.CSV)))
    found = duckdb.execute("FROM read_csv(?)", [str(tmp_path / "y.csv")]).fetchall()
    assert [house for house, _ in found] == bare


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_csv_says_floats_that_are_no_numbers(kind: pa.DataType) -> None:
    floats = [1.5, None, math.nan, math.inf, -math.inf]
    batch = pa.record_batch({"x": pa.array(floats, kind)})
    written = b"".join(encoded(batch.schema, iter([batch]), Format.CSV)).decode()
    assert written.split() == ["x", "1.5", "NaN", "inf", "-inf"]
    assert b"".join(encoded(batch.schema, iter([batch]), Format.NDJSON)).count(b"null") == 4


def test_a_json_array_of_nothing_is_one() -> None:
    schema, _ = rows_with(a=pa.array([], pa.int64()))
    assert json.loads(b"".join(encoded(schema, iter([]), Format.JSON))) == []


@pytest.mark.parametrize(
    "column",
    [
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([Decimal(100)], pa.decimal128(5, -2)),
    ],
)
def test_a_column_that_parquet_cannot_hold_is_refused(column: pa.Array) -> None:
    schema, batches = rows_with(spans=column)
    with refusing("UnwritableColumn"):
        b"".join(encoded(schema, batches, Format.PARQUET))


def test_a_folder_that_lost_something_is_damaged_and_leaves_no_file(
    folder: str, city: Chain, tmp_path: Path
) -> None:
    unknown = str(Multihash.of(b"no block"))
    assert run(folder, "--as-at", unknown).exit_code == 3
    target = tmp_path / "rows.csv"
    assert run(folder, "-o", str(target)).exit_code == 0
    assert [path.name for path in tmp_path.glob("rows*")] == ["rows.csv"]
    whole = target.read_bytes()
    for part in sorted(Path(folder, "data").iterdir())[:1]:
        part.unlink()
    lost = run(folder, "-o", str(target))
    assert lost.exit_code == 6
    assert "is not whole: there is no" in lost.stderr
    assert target.read_bytes() == whole
    assert [path.name for path in tmp_path.glob("rows*")] == ["rows.csv"]
    Path(folder, "blocks", str(city.blocks[1].hash)).unlink()
    assert run(folder).exit_code == 6


def test_an_address_that_lost_a_block_or_a_slice_is_damaged_as_a_folder_is(
    service: Service, entry: DatasetEntry, city: Chain
) -> None:
    url = f"{service.url}/city"
    assert run(url, "--as-at", str(Multihash.of(b"no block"))).exit_code == 3
    kind, name = next(key for key in city.objects if key[0] is ObjectKind.DATA)
    service.node.stores.objects.delete(ObjectKey(entry.id, kind, name))
    lost = run(url)
    assert lost.exit_code == 6
    assert "is not whole" in lost.stderr


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_instants_of_csv_are_those_of_all_formats(unit, zone):
    numbers = [0, -1, 1, 999, 120_000, 10**9 + 500, -(10**10), 253_402_300_799, 10**17 + 1]
    for taken in (numbers[:-2], numbers):
        column = pa.array([*taken, None], pa.timestamp(unit, zone))
        batch = pa.RecordBatch.from_arrays([column], ["at"])
        written = b"".join(encoded(batch.schema, iter([batch]), Format.CSV)).decode()
        told = ["" if value is None else str(value) for value in values(column)]
        assert written.split("\r\n")[1:-1] == told


def test_a_block_of_a_history_that_was_replaced_is_no_answer(service: Service) -> None:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(10)
    entry = service.keep(chain, "kamu/replaced")
    old = chain.head
    service.node.stores.refs.move(entry.id, expected=old, new=chain.blocks[2].hash)
    with service.http() as client:
        for path in ("read?", "lookup?column=city&value=c1&"):
            key = "asAt" if path == "read?" else "blockHash"
            assert client.get(f"/replaced/{path}{key}={old}").status_code == 404
            kept = f"/replaced/{path}{key}={chain.blocks[2].hash}"
            assert client.get(kept).status_code == 200


def test_slices_whose_rows_are_all_skipped_are_not_opened(service: Service) -> None:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(10)
    chain.add_rows(5).add_rows(7)
    service.keep(chain, "kamu/skipped")
    with service.http() as client:
        for skip, opened in ((0, 3), (9, 3), (10, 2), (15, 1), (22, 0), (99, 0)):
            answer = client.get("/skipped/read", params={"skip": skip})
            offsets = [json.loads(line)["offset"] for line in answer.text.splitlines()]
            assert offsets == list(range(skip, 22))
            assert answer.headers["odf-slices"] == f"{opened}/3"


def test_a_page_of_a_tail_opens_the_slices_of_its_rows_alone(service: Service) -> None:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA)).add_rows(10)
    chain.add_rows(5).add_rows(7)
    service.keep(chain, "kamu/paged")
    stores = service.node.stores
    entry = stores.dataset(DatasetRef(alias=DatasetAlias.parse("kamu/paged"))).entry
    tails = Tails(stores, max_records=1000, max_bytes=1 << 20)
    with service.http() as client:
        for skip, opened in ((0, 1), (4, 1), (5, 2), (7, 1), (10, 2), (12, 1), (22, 1), (99, 1)):
            task, _, _ = tail_task(tails, entry, skip=skip, limit=3, shape=DataFormat.AOS)
            assert len(task.slices) == opened, skip
            shown = client.get("/paged/tail", params={"skip": skip, "limit": 3}).json()
            offsets = [each["offset"] for each in shown["data"]]
            assert offsets == list(range(22))[::-1][skip : skip + 3][::-1]
        none = client.get("/paged/tail?skip=99&limit=3&dataFormat=JsonSoA").json()["data"]
        assert [*none.values()] == [[]] * len(none)
        assert "offset" in none
