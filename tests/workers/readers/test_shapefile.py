"""Shapefiles: archives as people publish them, and ones nobody should."""

from __future__ import annotations

import io
import json
import random
import zipfile
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapefile

from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.errors import BadInput, NodeError
from odf_node.protocol.metadata.reading import ReadStep
from odf_node.workers.readers.read import open_frame
from odf_node.workers.readers.shapefile import MalformedShapefile
from odf_node.workers.runtime.input_limits import DecompressionTooLarge, PrepareLimits
from odf_node.workers.slices.frame import BadRow, InputTooLarge, Limits

SQUARE = [[0, 0], [0, 10], [10, 10], [10, 0], [0, 0]]


def members(name: str = "cities", encoding: str = "utf-8") -> dict[str, bytes]:
    parts = {suffix: io.BytesIO() for suffix in ("shp", "shx", "dbf")}
    with shapefile.Writer(**parts, encoding=encoding) as out:  # type: ignore[arg-type]
        out.field("name", "C", 40)
        out.field("people", "N", 10, 0)
        out.field("share", "F", 10, 3)
        out.field("capital", "L")
        out.field("since", "D")
        out.poly([SQUARE])
        out.record("Zürich", 415_000, 0.25, True, date(2020, 1, 5))
        out.null()
        out.record("", None, None, None, None)
    return {f"{name}.{suffix}": part.getvalue() for suffix, part in parts.items()}


def archive(files: dict[str, bytes], folder: Path) -> Path:
    path = folder / "shapes.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in files.items():
            out.writestr(name, content)
    return path


def read(path: Path, limits: Limits = Limits(), **options: Any) -> pa.Table:
    step: ReadStep = from_data({"kind": "EsriShapefile", **options}, ReadStep)
    frame = open_frame(step, path, limits)
    assert frame is not None
    return frame.table()


def test_a_row_is_its_attributes_and_its_geometry(tmp_path: Path) -> None:
    rows = read(archive(members(), tmp_path))
    assert rows.schema == pa.schema(
        [
            ("capital", pa.bool_()),
            ("geometry", pa.string()),
            ("name", pa.string()),
            ("people", pa.float64()),
            ("share", pa.float64()),
            ("since", pa.string()),
        ]
    )
    city, nothing = rows.to_pylist()
    geometry = city.pop("geometry")
    assert city == {
        "capital": True,
        "name": "Zürich",
        "people": 415_000.0,
        "share": 0.25,
        "since": "2020-1-5",
    }
    assert geometry.startswith('{"coordinates":[[[[0.0,0.0],')
    assert geometry.endswith('"type":"MultiPolygon"}')
    assert len(json.loads(geometry)["coordinates"][0][0]) == 5
    assert set(nothing.values()) == {None}


def test_a_schema_picks_and_types_columns(tmp_path: Path) -> None:
    fields = [
        {"name": "people", "type": {"kind": "Option", "inner": "Int64"}},
        {"name": "name", "type": {"kind": "Option", "inner": "String"}},
    ]
    rows = read(archive(members(), tmp_path), schema={"fields": fields})
    assert rows.to_pylist()[0] == {"people": 415_000, "name": "Zürich"}


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("cp1252", b"1252"), ("latin-1", b"ISO-8859-1"), ("cp1251", b"ANSI 1251")],
)
def test_attributes_are_in_the_encoding_that_is_named(
    encoding: str, name: bytes, tmp_path: Path
) -> None:
    if encoding == "cp1251":
        pytest.importorskip("encodings.cp1251")
        files = {
            k: v.replace("Zürich".encode(), "Зима".encode("cp1251").ljust(7))
            for k, v in members().items()
        }
        wanted = "Зима"
    else:
        files, wanted = members(encoding=encoding), "Zürich"
    rows = read(archive({**files, "cities.cpg": name}, tmp_path))
    assert rows.column("name")[0].as_py() == wanted


def test_one_shapefile_of_several_has_to_be_named(tmp_path: Path) -> None:
    path = archive({**members("a/one"), **members("a/two"), "a/readme.txt": b"x"}, tmp_path)
    with pytest.raises(MalformedShapefile, match="2 shapefiles"):
        read(path)
    assert read(path, subPath="a/one.shp").num_rows == 2
    assert read(path, subPath="*two*").num_rows == 2
    with pytest.raises(MalformedShapefile, match="no shapefile"):
        read(path, subPath="three.shp")
    with pytest.raises(MalformedShapefile, match="no shapefile"):
        read(archive({"readme.txt": b"x"}, tmp_path))


def test_limits_hold_for_what_is_inside(tmp_path: Path) -> None:
    path = archive(members(), tmp_path)
    with pytest.raises(DecompressionTooLarge):
        read(path, Limits(archives=PrepareLimits(max_bytes=100)))
    with pytest.raises(InputTooLarge):
        read(path, Limits(row_bytes=20))
    bomb = archive({**members(), "cities.shp": b"\0" * (64 << 20)}, tmp_path)
    with pytest.raises(NodeError):
        read(bomb)


def test_text_of_another_encoding_is_refused_with_its_row(tmp_path: Path) -> None:
    path = archive({**members(encoding="latin-1"), "cities.cpg": b"UTF-8"}, tmp_path)
    with pytest.raises(BadRow, match="line 1"):
        read(path)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_members_are_refused_and_nothing_else_happens(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    files = members()
    name = chance.choice(sorted(files))
    content = bytearray(files[name])
    if seed % 3 == 0:
        del content[chance.randrange(len(content)) :]
    else:
        for _ in range(1 + seed % 20):
            content[chance.randrange(len(content))] = chance.choice([0, 127, 255])
    path = archive({**files, name: bytes(content)}, tmp_path)
    with suppress(BadInput):
        read(path)
