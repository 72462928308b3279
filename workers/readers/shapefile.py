"""The EsriShapefile reader: a zip archive with `.shp`, `.dbf` and, optionally, `.shx` and `.cpg`.

A row is a shape: its attributes, and `geometry` as GeoJson text in the coordinates of the file
(`.prj` is ignored). The format does not distinguish one line or polygon from several, so both
always become the `Multi…` kinds. Members are unpacked to disk, within the limits of archives.
"""

from __future__ import annotations

import codecs
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import shapefile

from odf_node.protocol.errors import BadInput
from odf_node.protocol.metadata.reading import ReadStepEsriShapefile

from ..prepare.zip import entry_names, unzip
from ..runtime.content import Content, size_of
from ..slices.frame import BadRow, Frame, Limits, check_names
from .json_rows import compact_json, typed_batches
from .json_scan import NumberText, Value
from .known import Known
from .rejected import Rejected

GEOMETRY = "geometry"
_MEMBERS = (".shp", ".dbf", ".shx", ".cpg")
_TYPES = {"N": pa.float64(), "F": pa.float64(), "L": pa.bool_()}
"""Types of attributes by their letter; all others are text."""
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


class MalformedShapefile(BadInput):
    """The archive contains no readable shapefile, or several."""


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
        rows = typed_batches(_rows(reader, limits), schema, limits, rejected)
        return Frame(schema, _closing(rows, stack.pop_all()))


def _shape_name(content: Content, sub_path: str | None, limits: Limits) -> str:
    """Return the name of the only `.shp` that matches."""
    names = [n for n in entry_names(content, limits.archives) if n.lower().endswith(".shp")]
    if sub_path is not None:
        exact = [name for name in names if name == sub_path]
        names = exact or [name for name in names if fnmatchcase(name, sub_path)]
    if len(names) != 1:
        what = "no shapefile" if not names else f"{len(names)} shapefiles"
        meant = "" if sub_path is None else f" of the name {sub_path!r}"
        raise MalformedShapefile(
            f"the archive holds {what}{meant}; subPath may name one",
            sub_path=sub_path,
            found=names[:10],
        )
    return names[0]


def _unpacked(content: Content, shape: str, folder: Path, limits: Limits) -> Path:
    """Unpack the members of the shapefile as `shapes.*` into the folder, whatever their case."""
    stem = str(PurePosixPath(shape).with_suffix(""))
    for name in entry_names(content, limits.archives):
        suffix = PurePosixPath(name).suffix
        if name.removesuffix(suffix) == stem and suffix.lower() in _MEMBERS:
            with (folder / f"shapes{suffix.lower()}").open("wb") as out:
                for chunk in unzip(content, name, limits.archives):
                    out.write(chunk)
    return folder / "shapes"


def _opened(base: Path, stack: ExitStack) -> Any:
    files = {}
    for suffix in (".shp", ".dbf", ".shx"):
        if (member := base.with_suffix(suffix)).exists():
            files[suffix[1:]] = stack.enter_context(member.open("rb"))
    if "dbf" not in files:
        raise MalformedShapefile("the shapefile has no table of attributes (.dbf)")
    try:
        with _doubts_count():
            return shapefile.Reader(**files, encoding=_encoding(base), encodingErrors="strict")
    except _DAMAGED as bad:
        raise MalformedShapefile(f"the shapefile cannot be read ({_short(bad)})") from None


@contextmanager
def _doubts_count() -> Iterator[None]:
    """Treat warnings of the library (sizes that contradict each other) as damage."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _encoding(base: Path) -> str:
    """Return the encoding of the attributes that `.cpg` names; UTF-8 without it."""
    try:
        name = base.with_suffix(".cpg").read_bytes()[:64].decode("ascii").strip()
    except FileNotFoundError:
        return "utf-8"
    except UnicodeDecodeError:
        name = "?"
    for form in (name, f"cp{name}", f"cp{name.removeprefix('ANSI ')}"):
        try:
            return codecs.lookup(form).name
        except (LookupError, ValueError):
            continue
    raise MalformedShapefile(f"the encoding {name[:40]!r} of the attributes is not known")


def _inferred(reader: Any) -> pa.Schema:
    types = {field[0]: _TYPES.get(_letter(field), pa.string()) for field in reader.data_fields}
    if len(types) < len(reader.data_fields):
        raise MalformedShapefile("two attributes share one name")
    types[GEOMETRY] = pa.string()
    return pa.schema([(name, types[name]) for name in sorted(types)])


def _letter(field: Any) -> str:
    return str(getattr(field[1], "value", field[1]))


def _closing(batches: Iterator[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.RecordBatch]:
    with stack:
        yield from batches


def _rows(reader: Any, limits: Limits) -> Iterator[Value]:
    names = [field[0] for field in reader.data_fields]
    shapes, number = iter(reader.iterShapeRecords()), 0
    while True:
        number += 1
        try:
            with _doubts_count():
                found = next(shapes, None)
            if found is None:
                return
            values = {name: _value(value) for name, value in zip(names, found.record, strict=True)}
            values[GEOMETRY] = _geometry(found.shape)
        except UnicodeDecodeError:
            raise BadRow("the text is not of the declared encoding", line=number) from None
        except _DAMAGED as bad:
            raise BadRow(f"the shape cannot be read ({_short(bad)})", line=number) from None
        size = sum(len(value) for value in values.values() if isinstance(value, str))
        if size > limits.row_bytes:
            raise limits.row_too_large(number)
        yield Value(number, values, size)


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


def _geometry(shape: Any) -> str | None:
    if shape.shapeType == shapefile.NULL:
        return None
    given = shape.__geo_interface__
    kind, places = given["type"], given["coordinates"]
    if kind in _MULTI:
        kind, places = _MULTI[kind], (places,)
    return compact_json({"type": kind, "coordinates": _plain(places)})


def _plain(places: Any) -> Any:
    """Convert coordinates to lists of number texts."""
    if isinstance(places, list | tuple):
        return [_plain(place) for place in places]
    if not math.isfinite(places):
        raise ValueError("a coordinate is not finite")
    return NumberText(repr(float(places)))


def _short(bad: BaseException) -> str:
    return str(bad)[:120] or type(bad).__name__
