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
from refusals import refusing

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.metadata.sources import ReadStep
from odf_workers.readers.formats.read import open_frame
from odf_workers.runtime.command import PrepareLimits
from odf_workers.slices.schema import BadRow, InputTooLarge, Limits

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
            ("people", pa.int64()),
            ("share", pa.float64()),
            ("since", pa.date32()),
        ]
    )
    city, nothing = rows.to_pylist()
    geometry = city.pop("geometry")
    assert city == {
        "capital": True,
        "name": "Zürich",
        "people": 415_000,
        "share": 0.25,
        "since": date(2020, 1, 5),
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
    [
        ("cp1252", b"1252"),
        ("latin-1", b"ISO-8859-1"),
        ("latin-1", b"88591"),
        ("latin-1", b"8859-1\r\n"),
        ("iso8859-15", b"885915"),
        ("cp1251", b"ANSI 1251"),
    ],
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
    with refusing("MalformedShapefile", match="2 shapefiles"):
        read(path)
    assert read(path, subPath="a/one.shp").num_rows == 2
    assert read(path, subPath="*two*").num_rows == 2
    with refusing("MalformedShapefile", match="no shapefile"):
        read(path, subPath="three.shp")
    with refusing("MalformedShapefile", match="no shapefile"):
        read(archive({"readme.txt": b"x"}, tmp_path))


def test_limits_hold_for_what_is_inside(tmp_path: Path) -> None:
    path = archive(members(), tmp_path)
    with refusing("DecompressionTooLarge"):
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


def of_shapes(kind: int, *rows: tuple[str, Any, int]) -> dict[str, bytes]:
    """Return the members of a shapefile; a row is the writer's method, its places, a number."""
    parts = {suffix: io.BytesIO() for suffix in ("shp", "shx", "dbf")}
    with shapefile.Writer(**parts, shapeType=kind) as out:  # type: ignore[arg-type]
        out.field("n", "N", 18, 0)
        for method, places, number in rows:
            getattr(out, method)(*places)
            out.record(number)
    return {f"s.{suffix}": part.getvalue() for suffix, part in parts.items()}


def geometry_of(kind: int, method: str, places: Any, folder: Path) -> dict[str, Any]:
    (row,) = read(archive(of_shapes(kind, (method, places, 1)), folder)).to_pylist()
    return {key: json.loads(row[key]) for key in row if key.startswith("geo")}


def test_heights_and_measures_are_kept(tmp_path: Path) -> None:
    ring = [[0, 0, 1, 5], [0, 9, 2, 6], [9, 9, 3], [0, 0, 1, 5]]
    found = geometry_of(shapefile.POLYGONZ, "polyz", [[ring]], tmp_path)
    assert found["geometry"]["coordinates"] == [
        [[[0.0, 0.0, 1.0], [0.0, 9.0, 2.0], [9.0, 9.0, 3.0], [0.0, 0.0, 1.0]]]
    ]
    assert found["geometry_m"] == [[[5.0, 6.0, None, 5.0]]]
    found = geometry_of(shapefile.POINTM, "pointm", [1, 2, 9], tmp_path)
    assert (found["geometry"]["coordinates"], found["geometry_m"]) == ([1.0, 2.0], 9.0)
    found = geometry_of(shapefile.POINTZ, "pointz", [1, 2, 3], tmp_path)
    assert found == {"geometry": {"type": "Point", "coordinates": [1.0, 2.0, 3.0]}}


def test_a_deleted_row_takes_its_shape_with_it(tmp_path: Path) -> None:
    files = of_shapes(shapefile.POINT, *(("point", (at, at), at) for at in range(4)))
    table = bytearray(files["s.dbf"])
    head, size = int.from_bytes(table[8:10], "little"), int.from_bytes(table[10:12], "little")
    table[head + size] = ord("*")  # the second row
    path = archive({**files, "s.dbf": bytes(table)}, tmp_path)
    step: ReadStep = from_data({"kind": "EsriShapefile"}, ReadStep)
    frame = open_frame(step, path, Limits())
    assert frame is not None
    rows = frame.table().to_pylist()
    places = [json.loads(row["geometry"])["coordinates"] for row in rows]
    assert [row["n"] for row in rows] == [0, 2, 3]
    assert places == [[0.0, 0.0], [2.0, 2.0], [3.0, 3.0]]
    assert frame.warnings == ["1 rows that are marked as deleted are left out, with their shapes"]


def test_whole_numbers_are_exact(tmp_path: Path) -> None:
    files = of_shapes(
        shapefile.POINT, ("point", (0, 0), 2**53 + 1), ("point", (0, 0), -(10**16) - 1)
    )
    numbers = read(archive(files, tmp_path)).column("n")
    assert (numbers.type, numbers.to_pylist()) == (pa.int64(), [2**53 + 1, -(10**16) - 1])


def of_cells(letter: str, digits: int, *cells: bytes) -> dict[str, bytes]:
    """A shapefile with a column of these bytes."""
    width = len(cells[0])
    files = of_shapes(shapefile.POINT, *[("point", (1, 2), number) for number in range(len(cells))])
    with io.BytesIO() as table:
        with shapefile.Writer(dbf=table) as out:  # type: ignore[arg-type]
            out.field("v", "C", width)
            for _ in cells:
                out.record("x" * width)
        made = bytearray(table.getvalue())
    made[32 + 11], made[32 + 17] = ord(letter), digits
    for cell in cells:
        made = made.replace(b"x" * width, cell, 1)
    return {name: bytes(made) if name.endswith(".dbf") else file for name, file in files.items()}


def test_a_fraction_in_a_column_without_decimals_is_kept_or_refused(tmp_path: Path) -> None:
    """pyshp 3.1.6 reads 1.5 as 1 where the column declares no decimals."""
    files = of_cells("N", 0, b"   2.0", b"   1e3", b"   1.5")
    declared = read(archive(files, tmp_path), schema=["v DOUBLE"])
    assert declared["v"].to_pylist() == [2.0, 1000.0, 1.5]
    with refusing("BadRow"):
        read(archive(files, tmp_path))


@pytest.mark.parametrize("cell", [b"12,5", b"12ab", b"1_00", b"   -", b"12**"])
def test_what_is_no_number_is_not_null(cell: bytes, tmp_path: Path) -> None:
    """pyshp 3.1.6 gives None for such cells, and 100 for 1_00."""
    for digits in (0, 2):
        with refusing("BadRow"):
            read(archive(of_cells("N", digits, cell), tmp_path))


def test_digits_that_a_double_lacks_are_kept(tmp_path: Path) -> None:
    files = of_cells("N", 4, b"1234567890123456.1234", b"                .5000")
    rows = read(archive(files, tmp_path), schema=["v DECIMAL(20, 4)"])
    assert [str(each) for each in rows["v"].to_pylist()] == ["1234567890123456.1234", "0.5000"]


def test_asterisks_and_blanks_are_null_and_asterisks_are_told(tmp_path: Path) -> None:
    path = archive(of_cells("N", 0, b"****", b"    ", b"\0\0\0\0", b"  12"), tmp_path)
    step: ReadStep = from_data({"kind": "EsriShapefile"}, ReadStep)
    frame = open_frame(step, path, Limits())
    assert frame is not None
    assert frame.table()["v"].to_pylist() == [None, None, None, 12]
    assert [told for told in frame.warnings if "1 numbers are asterisks" in told]


def test_a_flag_is_one_of_its_letters(tmp_path: Path) -> None:
    files = of_cells("L", 0, b"T", b"n", b"?", b" ", b"\0")
    assert read(archive(files, tmp_path))["v"].to_pylist() == [True, False, None, None, None]
    with refusing("BadRow"):
        read(archive(of_cells("L", 0, b"J"), tmp_path))


def test_shapes_without_rows_are_refused(tmp_path: Path) -> None:
    files = of_shapes(shapefile.POINT, *(("point", (at, at), at) for at in range(4)))
    fewer = of_shapes(shapefile.POINT, *(("point", (at, at), at) for at in range(3)))
    with refusing("MalformedShapefile", match="4 shapes, and 3 rows"):
        read(archive({**files, "s.dbf": fewer["s.dbf"]}, tmp_path))


@pytest.mark.parametrize(
    ("projection", "told"),
    [
        ('GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984"]]', None),
        ('GEOGCRS["WGS 84",ENSEMBLE["x"]]', None),
        ('PROJCS["ETRS_1989_UTM_Zone_32N",GEOGCS["GCS_ETRS_1989"]]', "ETRS_1989_UTM_Zone_32N"),
        ('PROJCS["WGS_1984_UTM_Zone_32N",GEOGCS["GCS_WGS_1984"]]', "WGS_1984_UTM_Zone_32N"),
    ],
)
def test_coordinates_of_another_system_are_warned_of(
    projection: str, told: str | None, tmp_path: Path
) -> None:
    files = {**of_shapes(shapefile.POINT, ("point", (0, 0), 1)), "s.prj": projection.encode()}
    step: ReadStep = from_data({"kind": "EsriShapefile"}, ReadStep)
    frame = open_frame(step, archive(files, tmp_path), Limits())
    assert frame is not None
    frame.table()
    assert [told in text for text in frame.warnings if told] == ([True] if told else [])
    assert bool(frame.warnings) == (told is not None)


def test_an_encoding_that_is_not_known_is_told(tmp_path: Path) -> None:
    with refusing("MalformedShapefile", match=r"which \.cpg names, is not known"):
        read(archive({**members(), "cities.cpg": b"KLINGON"}, tmp_path))


def test_litter_of_archives_is_no_member(tmp_path: Path) -> None:
    files = {"__MACOSX/._cities.shp": b"x", "._cities.shp": b"x", **members()}
    assert read(archive(files, tmp_path)).num_rows == 2


def test_an_attribute_of_a_type_of_later_programs_is_named(tmp_path: Path) -> None:
    files = members()
    table = bytearray(files["cities.dbf"])
    table[table.index(b"people\0") + 11] = ord("I")
    files["cities.dbf"] = bytes(table)
    with refusing("MalformedShapefile", match="attribute 'people' has the type 'I', which"):
        read(archive(files, tmp_path))
