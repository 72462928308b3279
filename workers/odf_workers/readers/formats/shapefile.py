"""The EsriShapefile reader: a zip archive with `.shp`, `.dbf` and, optionally, `.shx` and `.cpg`.

A row is a shape and the attributes of the same number: `geometry` as GeoJson text in the
coordinates of the file, with heights; `geometry_m` has its measures in the same order, if the file
has any. Rows marked as deleted are left out with their shapes. The format does not distinguish one
line or polygon from several, so both always become the `Multi…` kinds. Numbers and flags are read
from the bytes of the table, as the library cuts fractions and makes null of what it cannot read.
Members are unpacked to disk, within the limits of archives.
"""

from __future__ import annotations

import math
import re
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import pyarrow as pa
import shapefile

from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStepEsriShapefile
from odf_protocol.sources.csv_header import UTF8, encoding_of

from ...prepare.run import entry_names, unzip
from ...runtime.progress import Content, size_of
from ...slices.schema import BadRow, Frame, Limits, check_names
from ..values.features import Known, is_wgs84, not_wgs84
from ..values.forms import forms_of
from ..values.json_scan import FieldsSeen, NumberText, Value, compact_json
from ..values.json_values import ValueRules
from ..values.rejected import Rejected, typed_batches

GEOMETRY, MEASURES = "geometry", "geometry_m"
_OWN = (GEOMETRY, MEASURES)
"""Columns that shapes give; attributes of these names get an underscore."""
_MEMBERS = (".shp", ".dbf", ".shx", ".cpg", ".prj")
_TYPES = {"N": pa.float64(), "F": pa.float64(), "L": pa.bool_(), "D": pa.date32()}
"""Types of attributes by their letter; all others are text. Whole numbers have types of their
own."""
_INT64_DIGITS, _DECIMAL_DIGITS = 18, 38
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FLAGS = {**dict.fromkeys("YyTt1", True), **dict.fromkeys("NnFf0", False), "": None, "?": None}
_MEASURED = frozenset(
    {shapefile.POINTM, shapefile.MULTIPOINTM, shapefile.POLYLINEM, shapefile.POLYGONM}
)
_HIGH = frozenset(
    {shapefile.POINTZ, shapefile.MULTIPOINTZ, shapefile.POLYLINEZ, shapefile.POLYGONZ}
)
_END: Any = object()
_PROJECTION_BYTES = 16_384
_DBF_HEADER_BYTES, _DBF_TYPES = 1 << 16, "CDFLMN"
_QUOTED = re.compile(r'\s*(\w+)\s*\[\s*"([^"]*)"')
_MULTI = {"LineString": "MultiLineString", "Polygon": "MultiPolygon"}
_DAMAGED = (
    shapefile.ShapefileException,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    TypeError,
    ValueError,
    Warning,
    shapefile.error,
)


def read_shapefile(
    step: ReadStepEsriShapefile,
    content: Content,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
) -> Frame | None:
    """Open an archive.

    Raises:
        MalformedShapefile: the archive has no `.shp`, several, or a damaged one.
        MalformedArchive, DecompressionTooLarge: the archive itself is damaged or too large.
    """
    if size_of(content) == 0:
        return None if schema is None else Frame.empty(schema)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shapefile-")))
        base = _unpacked(content, _shape_name(content, step.sub_path, limits), folder, limits)
        reader = _opened(base, stack)
        if schema is None:
            schema = _inferred(reader)
            if known is not None:
                schema = pa.schema([f.with_type(known.type_of(f.name, f.type)) for f in schema])
        check_names(schema.names, limits)
        seen = FieldsSeen(schema.names)
        if (system := _system(base)) is not None and not is_wgs84(system):
            seen.remark(not_wgs84(system))
        how = ValueRules(forms=forms_of(step))
        rows = typed_batches(
            _rows(reader, limits, seen), schema, limits, rejected, how=how, seen=seen
        )
        warnings: list[str] = []
        return Frame(schema, _closing(rows, stack.pop_all(), seen, warnings), warnings, seen)


def _shape_name(content: Content, sub_path: str | None, limits: Limits) -> str:
    """Return the name of the only `.shp` that matches."""
    names = [n for n in entry_names(content, limits.archives) if n.lower().endswith(".shp")]
    if sub_path is not None:
        exact = [name for name in names if name == sub_path]
        names = exact or [name for name in names if fnmatchcase(name, sub_path)]
    if len(names) != 1:
        what = "no shapefile" if not names else f"{len(names)} shapefiles"
        meant = "" if sub_path is None else f" of the name {sub_path!r}"
        raise BadInput(
            "MalformedShapefile",
            f"the archive holds {what}{meant}; subPath may name one",
            sub_path=sub_path,
            found=names[:10],
        )
    return names[0]


_DAY = slice(1, 4)
"""Place of the day on which a table was written, in its head."""


def members_of(content: Content, step: ReadStepEsriShapefile, limits: Limits) -> Iterator[bytes]:
    """Yield the members of a shapefile that are read, in the order of their kinds, for a hash: the
    day on which the table was written is zeros. Raises as `read_shapefile`."""
    shape = _shape_name(content, step.sub_path, limits)
    stem = str(PurePosixPath(shape).with_suffix(""))
    for suffix, name in sorted(_members(content, stem, limits)):
        yield f"{suffix}\0".encode()
        is_head = suffix == ".dbf"
        for chunk in unzip(content, name, limits.archives):
            if is_head and len(chunk) >= _DAY.stop:
                chunk = chunk[: _DAY.start] + bytes(_DAY.stop - _DAY.start) + chunk[_DAY.stop :]
            is_head = False
            yield chunk


def _members(content: Content, stem: str, limits: Limits) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of the members, whatever their case."""
    for name in entry_names(content, limits.archives):
        suffix = PurePosixPath(name).suffix
        if name.removesuffix(suffix) == stem and suffix.lower() in _MEMBERS:
            yield suffix.lower(), name


def _unpacked(content: Content, shape: str, folder: Path, limits: Limits) -> Path:
    """Unpack the members of the shapefile as `shapes.*` into the folder."""
    stem = str(PurePosixPath(shape).with_suffix(""))
    for suffix, name in _members(content, stem, limits):
        with (folder / f"shapes{suffix}").open("wb") as out:
            for chunk in unzip(content, name, limits.archives):
                out.write(chunk)
    return folder / "shapes"


def _opened(base: Path, stack: ExitStack) -> Any:
    files = {}
    for suffix in (".shp", ".dbf", ".shx"):
        if (member := base.with_suffix(suffix)).exists():
            files[suffix[1:]] = stack.enter_context(member.open("rb"))
    if "dbf" not in files:
        raise BadInput("MalformedShapefile", "the shapefile has no table of attributes (.dbf)")
    _check_attributes(base.with_suffix(".dbf"))
    try:
        with _doubts_count():
            return shapefile.Reader(**files, encoding=_encoding(base), encodingErrors="strict")
    except _DAMAGED as bad:
        raise BadInput(
            "MalformedShapefile", f"the shapefile cannot be read ({_short(bad)})"
        ) from None


def _check_attributes(table: Path) -> None:
    """Raise `MalformedShapefile` for an attribute of a type that only later programs than dBase III
    know, of which the library says the letter alone. Source: the header of dBase tables: from byte
    32 on 32 bytes for each attribute, its name in 11 and its type in one, until byte 13."""
    with table.open("rb") as stream:
        header = stream.read(_DBF_HEADER_BYTES)
    for at in range(32, len(header) - 31, 32):
        if header[at] == 13:
            return
        name, letter = header[at : at + 11].partition(b"\0")[0], chr(header[at + 11]).upper()
        if letter not in _DBF_TYPES:
            raise BadInput(
                "MalformedShapefile",
                f"the attribute {name.decode('utf-8', 'replace')!r} has the type {letter!r}, which "
                f"shapefiles do not have ({', '.join(_DBF_TYPES)} are known): write it as a number "
                "or a text",
            )


@contextmanager
def _doubts_count() -> Iterator[None]:
    """Treat warnings of the library (sizes that contradict each other) as damage."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _encoding(base: Path) -> str:
    """Return the encoding of the attributes that `.cpg` names; UTF-8 without it."""
    try:
        name = base.with_suffix(".cpg").read_bytes()[:64].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return UTF8
    found = encoding_of(name)
    if found is None:
        raise BadInput(
            "MalformedShapefile",
            f"the encoding {name[:40]!r} of the attributes, which .cpg names, is not known: write "
            "UTF-8 or the number of a code page there",
        )
    return found


def _system(base: Path) -> str | None:
    """Return the name of the coordinate system in `.prj`; None if there is none."""
    try:
        with base.with_suffix(".prj").open("rb") as stream:
            text = stream.read(_PROJECTION_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    found = _QUOTED.match(text.removeprefix("\ufeff"))
    return None if found is None else found[2]


def _inferred(reader: Any) -> pa.Schema:
    types = dict(zip(_names(reader), map(_type, reader.data_fields), strict=True))
    types[GEOMETRY] = pa.string()
    if _has_measures(reader):
        types[MEASURES] = pa.string()
    return pa.schema([(name, types[name]) for name in sorted(types)])


def _names(reader: Any) -> list[str]:
    """Return the names of the attributes as columns."""
    names = [field[0] for field in reader.data_fields]
    names = [f"_{name}" if name in _OWN else name for name in names]
    if len(set(names)) < len(names):
        raise BadInput("MalformedShapefile", "two attributes share one name")
    return names


def _type(field: Any) -> pa.DataType:
    """Return the type of an attribute: a whole number is exact, whatever its digits."""
    letter = _letter(field)
    width, digits = int(field[2]), int(field[3])
    if letter == "N" and not digits and width <= _DECIMAL_DIGITS:
        return pa.int64() if width <= _INT64_DIGITS else pa.decimal128(_DECIMAL_DIGITS, 0)
    return _TYPES.get(letter, pa.string())


def _letter(field: Any) -> str:
    return str(getattr(field[1], "value", field[1]))


def _has_measures(reader: Any) -> bool:
    """Whether shapes have measures. Files with heights have room for them, mostly unused."""
    if reader.shapeType in _MEASURED:
        return True
    bounds = getattr(reader, "mbox", None) if reader.shapeType in _HIGH else None
    return any(_measure(bound) for bound in bounds or ())


def _closing(
    batches: Iterator[pa.RecordBatch], stack: ExitStack, seen: FieldsSeen, warnings: list[str]
) -> Iterator[pa.RecordBatch]:
    with stack:
        yield from batches
    warnings += seen.warnings()


def _rows(reader: Any, limits: Limits, seen: FieldsSeen) -> Iterator[Value]:
    """Yield the rows that are not marked as deleted, each with the shape of its number."""
    names, measured = _names(reader), _has_measures(reader)
    for name in names:
        if name.removeprefix("_") in _OWN and name.startswith("_"):
            seen.remark(f"the attribute `{name[1:]}` is here `{name}`")
    cells = _Cells(reader)
    records: Iterator[Any] = reader.iterRecords(deleted_as_None=True)
    number = deleted = 0
    while True:
        number += 1
        try:
            with _doubts_count():
                record = next(records, _END)
                if record is _END:
                    break
                if record is None:
                    deleted += 1
                    continue
                shape = reader.shape(number - 1)
            given = zip(names, tuple(record), strict=True)
            values = {name: _value(value) for name, value in given}
            values.update(cells.of_last_row())
            values[GEOMETRY], measures = _geometry(shape)
            if measured:
                values[MEASURES] = measures
        except UnicodeDecodeError:
            raise BadRow(
                "the text is not of the declared encoding (UTF-8 without .cpg)", line=number
            ) from None
        except _DAMAGED as bad:
            raise BadRow(f"the shape cannot be read ({_short(bad)})", line=number) from None
        size = sum(len(value) for value in values.values() if isinstance(value, str))
        if size > limits.row_bytes:
            raise limits.row_too_large(number)
        yield Value(number, values, size)
    if deleted:
        seen.remark(f"{deleted} rows that are marked as deleted are left out, with their shapes")
    if cells.asterisks:
        seen.remark(
            f"{cells.asterisks} numbers are asterisks, which stand for no value or for a number "
            "that is wider than its column: they are null here"
        )
    _check_end(reader, number - 1)


def _check_end(reader: Any, rows: int) -> None:
    """Raise `MalformedShapefile` if there are shapes without a row."""
    index = reader.shx_reader
    try:
        with _doubts_count():
            shapes = sum(1 for _ in (index.offsets if index else reader.shp_reader.headers_gen()))
    except _DAMAGED as bad:
        raise BadInput(
            "MalformedShapefile", f"the shapefile cannot be read ({_short(bad)})"
        ) from None
    if shapes > rows:
        raise BadInput("MalformedShapefile", f"the shapefile has {shapes} shapes, and {rows} rows")


class _Cells:
    """Numbers and flags of the row that was read last, from the bytes of the table."""

    def __init__(self, reader: Any) -> None:
        self.asterisks = 0
        self._table = reader.dbf_reader.file
        self._table.seek(8)
        _, self._row_bytes = struct.unpack("<HH", self._table.read(4))
        self._columns: list[tuple[str, Callable[[str, int], Any], slice, int]] = []
        start = 1  # behind the flag of deleted rows
        for name, field in zip(_names(reader), reader.data_fields, strict=True):
            place = slice(start, start := start + field.size)
            if (read := self._READS.get(_letter(field))) is not None:
                self._columns.append((name, read.__get__(self), place, field.decimal))

    def of_last_row(self) -> dict[str, Any]:
        """Return the values by name, a text for what is neither a value nor null."""
        self._table.seek(self._table.tell() - self._row_bytes)
        row = self._table.read(self._row_bytes)
        return {
            name: read(row[place].partition(b"\0")[0].decode("ascii", "backslashreplace"), digits)
            for name, read, place, digits in self._columns
        }

    def _number(self, text: str, digits: int) -> int | str | None:
        text = text.strip()
        if not text.strip("*"):
            self.asterisks += bool(text)
            return None
        if not _NUMBER.fullmatch(text):
            return NumberText("nan") if text.lower() in ("nan", "-nan") else text
        exact = Decimal(text)
        if not digits and exact.adjusted() < _DECIMAL_DIGITS and exact == int(exact):
            return int(exact)
        short = repr(float(text))
        return NumberText(short if Decimal(short) == exact else str(exact))

    def _flag(self, text: str, _: int) -> bool | str | None:
        text = text.strip()
        return _FLAGS.get(text, text)

    _READS: ClassVar = {"N": _number, "F": _number, "L": _flag}


def _value(value: Any) -> Any:
    match value:
        case bool() | int():
            return value
        case float():
            return NumberText(repr(value))
        case datetime():
            day = f"{value.year}-{value.month}-{value.day}"
            return f"{day} {value.hour}:{value.minute}:{value.second}"
        case date():
            return f"{value.year}-{value.month}-{value.day}"
        case str():
            return value.rstrip("\0 ") or None
        case _:
            return None if value is None else str(value)


def _geometry(shape: Any) -> tuple[str | None, str | None]:
    """Return the geometry as GeoJson text, and its measures in the order of its positions."""
    if shape.shapeType == shapefile.NULL:
        return None, None
    if shape.shapeType in _HIGH:
        shape.points = [(*one[:2], z) for one, z in zip(shape.points, shape.z, strict=True)]
    geometry = compact_json(_of_interface(shape, _coordinate))
    if shape.shapeType not in _HIGH | _MEASURED or all(_measure(m) is None for m in shape.m or ()):
        return geometry, None
    shape.points = [(*one[:2], m) for one, m in zip(shape.points, shape.m, strict=True)]
    measures = _of_interface(shape, lambda place: place)["coordinates"]
    return geometry, compact_json(_last_ones(measures))


def _of_interface(shape: Any, number: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the shape as the library sorts its rings and parts, always of several."""
    given = shape.__geo_interface__
    kind, places = given["type"], given["coordinates"]
    if kind in _MULTI:
        kind, places = _MULTI[kind], (places,)
    return {"type": kind, "coordinates": _plain(places, number)}


def _plain(places: Any, number: Callable[[Any], Any]) -> Any:
    """Convert the numbers of nested positions, which become lists."""
    if isinstance(places, list | tuple):
        return [_plain(place, number) for place in places]
    return number(places)


def _coordinate(value: float) -> NumberText:
    if not math.isfinite(value):
        raise ValueError("a coordinate is not finite")
    return NumberText(repr(float(value)))


def _last_ones(places: Any) -> Any:
    """Replace each position by its third number."""
    if places and not isinstance(places[0], list):
        measure = _measure(places[2])
        return None if measure is None else NumberText(repr(measure))
    return [_last_ones(place) for place in places]


def _measure(value: Any) -> float | None:
    """Return a measure; None where the file has none, which it writes as a number below -1e38."""
    return None if value is None or not value > -1e38 or not math.isfinite(value) else float(value)


def _short(bad: BaseException) -> str:
    return str(bad)[:120] or type(bad).__name__
