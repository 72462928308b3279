"""Rows with places are downloaded as GeoParquet, and refused if what they have is no place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from service import Service, serving
from sharing_client import run_beside
from table_made import TableMade

from odf_node.cli.main import main
from odf_storage.datasets.read.geometries import wkb
from odf_storage.stores.ports.values import Visibility

PLACES = pa.schema([("name", pa.string()), ("geometry", pa.string())])
AREA = [[[0, 0], [4, 0], [4, 4], [0, 0]], [[1, 0.5], [2, 0.5], [2, 1], [1, 0.5]]]
LINE = [[1, 2], [3, 4.5]]
SHAPES: dict[str, dict[str, Any]] = {
    "POINT (1.5 -2)": {"type": "Point", "coordinates": [1.5, -2]},
    "POINT EMPTY": {"type": "Point", "coordinates": []},
    "POINT Z (1 2 3)": {"type": "Point", "coordinates": [1, 2, 3]},
    "LINESTRING (1 2, 3 4.5)": {"type": "LineString", "coordinates": LINE},
    "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 0.5, 2 0.5, 2 1, 1 0.5))": {
        "type": "Polygon",
        "coordinates": AREA,
    },
    "MULTIPOINT (1 2, 3 4.5)": {"type": "MultiPoint", "coordinates": LINE},
    "MULTILINESTRING ((1 2, 3 4.5), (1 2, 3 4.5))": {
        "type": "MultiLineString",
        "coordinates": [LINE, LINE],
    },
    "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0), (1 0.5, 2 0.5, 2 1, 1 0.5)))": {
        "type": "MultiPolygon",
        "coordinates": [AREA],
    },
    "MULTILINESTRING EMPTY": {"type": "MultiLineString", "coordinates": []},
    "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (1 2, 3 4.5))": {
        "type": "GeometryCollection",
        "geometries": [
            {"type": "Point", "coordinates": [1, 2]},
            {"type": "LineString", "coordinates": LINE},
        ],
    },
}
"""Geometries of GeoJSON by their text of OGC."""
DEEP: dict[str, Any] = {"type": "Point", "coordinates": [1, 2]}
for _ in range(40):
    DEEP = {"type": "GeometryCollection", "geometries": [DEEP]}
NO_SHAPES: list[Any] = [
    {"type": "Point", "coordinates": [500_000, 4_649_776]},
    {"type": "Point", "coordinates": [1, 91]},
    {"type": "Point", "coordinates": [1]},
    {"type": "Point", "coordinates": "xyz"},
    {"type": "Point", "coordinates": {"x": 1}},
    {"type": "Point", "coordinates": [1, 2, 10**400]},
    {"type": "LineString", "coordinates": [[1, 2, 3], [1, 2]]},
    {"type": "Polygon", "coordinates": [[1, 2]]},
    {"type": "Circle", "coordinates": [1, 2]},
    {"type": ["Point"], "coordinates": [1, 2]},
    {"type": "GeometryCollection", "geometries": 3},
    {"type": "Point"},
    DEEP,
    [1, 2],
    "POINT (1 2)",
    None,
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node")) as service:
        stores = service.node.stores
        towns = TableMade(stores, "kamu/towns", PLACES, visibility=Visibility.PUBLIC)
        rows = [{"name": text, "geometry": json.dumps(it)} for text, it in SHAPES.items()]
        towns.add([*rows, {"name": None, "geometry": None}])
        towns.add([{"name": "later", "geometry": json.dumps(SHAPES["POINT (1.5 -2)"])}])
        yield service


def download(service: Service, path: Path, **asked: str) -> Path:
    with service.http() as http:
        answer = http.get("/towns/read", params={"format": "geoparquet", **asked})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    path.write_bytes(answer.content)
    return path


def test_arrow_and_duckdb_read_the_places_of_the_file(service, tmp_path):
    file = download(service, tmp_path / "towns.parquet")
    geo = json.loads(pq.read_schema(file).metadata[b"geo"])
    about = {"encoding": "WKB", "geometry_types": []}
    columns = {"geometry": about}
    assert geo == {"version": "1.1.0", "primary_column": "geometry", "columns": columns}
    rows = pq.read_table(file).to_pylist()
    assert [row["geometry"] for row in rows[:-2]] == [wkb(it) for it in SHAPES.values()]
    with duckdb.connect() as db:
        [[kind]] = db.execute(f"SELECT DISTINCT typeof(geometry) FROM '{file}'").fetchall()
        assert kind == "GEOMETRY('OGC:CRS84')"
        shown = db.execute(f"SELECT name, geometry::VARCHAR FROM '{file}'").fetchall()
    assert shown == [*[(text, text) for text in SHAPES], (None, None), ("later", "POINT (1.5 -2)")]


FRAME = """
import json, sys
import geopandas
frame = geopandas.read_parquet(sys.argv[1])
print(json.dumps([str(frame.crs), [None if g is None else g.wkt for g in frame.geometry][:5]]))
"""


def test_geopandas_reads_the_file(service, tmp_path):
    file = download(service, tmp_path / "towns.parquet")
    crs, shown = json.loads(run_beside(FRAME, tmp_path, str(file)))
    assert (crs, shown[1:4:2]) == ("OGC:CRS84", ["POINT EMPTY", "LINESTRING (1 2, 3 4.5)"])


def test_a_file_without_rows_and_one_of_the_command_line_have_places(service, tmp_path):
    empty = download(service, tmp_path / "empty.parquet", limit="0")
    assert b"geo" in pq.read_schema(empty).metadata
    written = tmp_path / "written.parquet"
    asked = ["read", f"{service.url}/towns", "--format", "geoparquet", "-o", str(written)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert pq.read_table(written).num_rows == len(SHAPES) + 2


def test_rows_without_places_are_refused_with_what_to_ask_for(service):
    with service.http() as http:
        answer = http.get("/towns/read", params={"format": "geoparquet", "columns": "name"})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:odf-node:problem:NoPlaces")
    assert "ask for parquet" in answer.json()["detail"]


@pytest.mark.parametrize("shape", NO_SHAPES, ids=lambda shape: json.dumps(shape)[:40])
def test_a_text_that_is_no_place_in_degrees_is_refused(shape):
    from odf_protocol.errors import BadInput
    from odf_storage.datasets.read.geometries import places, with_places

    schema = with_places(PLACES)
    rows = pa.record_batch({"name": ["x"], "geometry": [json.dumps(shape)]}, PLACES)
    with pytest.raises(BadInput, match="ask for parquet"):
        list(places(schema, iter([rows])))
