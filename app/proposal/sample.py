"""The beginning of a file as a sample: its format, and as much unpacked content as needed."""

from __future__ import annotations

import bz2
import io
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

import pyarrow as pa

from odf_node.protocol.errors import BadInput
from odf_node.storage.runtime.zip_entries import DAMAGED, entries_of, unpacked

PIECE_BYTES = 16 * 1024
"""Bytes that are unpacked at once. A piece is lost if the sample ends within it."""
DIRECTORY_BYTES = 1 << 20
"""Limit of the bytes of a zip archive's table of contents."""
SAMPLE_BYTES = 4 << 20
"""Default number of unpacked bytes that are examined."""


class Format(StrEnum):
    """Formats of published files, by the names of their read steps."""

    CSV = "Csv"
    JSON = "Json"
    NDJSON = "NdJson"
    GEOJSON = "GeoJson"
    NDGEOJSON = "NdGeoJson"
    PARQUET = "Parquet"
    SHAPEFILE = "EsriShapefile"


FORMATS: dict[str, Format] = {
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".txt": Format.CSV,
    ".json": Format.JSON,
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".geojson": Format.GEOJSON,
    ".ndgeojson": Format.NDGEOJSON,
    ".parquet": Format.PARQUET,
    ".shp": Format.SHAPEFILE,
}
MEDIA_TYPES: dict[Format, str] = {
    Format.CSV: "text/csv",
    Format.JSON: "application/json",
    Format.NDJSON: "application/x-ndjson",
    Format.GEOJSON: "application/geo+json",
    Format.NDGEOJSON: "application/x-ndgeojson",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.SHAPEFILE: "application/vnd.shp",
}
TEXT = frozenset({Format.CSV, Format.JSON, Format.NDJSON, Format.GEOJSON, Format.NDGEOJSON})


class UnknownFormat(BadInput):
    """The format of a file cannot be determined from its name or its beginning."""


class DamagedPacking(BadInput):
    """A packed file that cannot be unpacked, or that does not contain exactly one file."""


class NotUtf8(BadInput):
    """Text in an encoding other than UTF-8, the only one that nodes read."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of a file: its format, its text or bytes, and whether they are the whole
    file."""

    name: str
    """Name of the file, without folders, and without endings of packed files."""
    format: Format
    data: bytes
    is_whole: bool

    def text(self) -> str:
        """Return the data as text, without an incomplete last line. Raises `NotUtf8`."""
        data = self.data.removeprefix(b"\xef\xbb\xbf")
        if not self.is_whole:  # the last character may be cut
            data = data[: data.rfind(b"\n") + 1] or data
        try:
            return data.decode()
        except UnicodeDecodeError as bad:
            line = data.count(b"\n", 0, bad.start) + 1
            raise NotUtf8(
                f"line {line} of {self.name} is not UTF-8, which is all that nodes read; convert "
                "the file first: iconv -f WINDOWS-1252 -t UTF-8 FILE",
                line=line,
            ) from None


def sample_of(
    file_name: str,
    begin: bytes,
    *,
    is_whole: bool,
    most: int = SAMPLE_BYTES,
    form: Format | None = None,
) -> Sample:
    """Return a sample of a file with this beginning: at most `most` bytes of its unpacked content.

    For a zip archive `begin` has to be the whole file, since the table of contents is at the end.

    Raises:
        UnknownFormat, DamagedPacking.
    """
    name = PurePath(file_name).name
    for mark, ending, unpack in _PACKINGS:
        if mark.match(begin):
            name = _without(name, ending)
            if ending == ".zip" and form in (None, Format.SHAPEFILE) and _holds_shape(begin):
                return Sample(name, Format.SHAPEFILE, begin[:most], is_whole)
            begin, ended, inner = unpack(begin, most + 1)
            name, is_whole = inner or name, is_whole and ended
            break
    form = form or FORMATS.get(PurePath(name).suffix.lower()) or _by_content(begin)
    if form is None:
        known = " ".join(FORMATS)
        raise UnknownFormat(
            f"cannot tell the format of {name} (known: {known}); say it by --format"
        )
    if form is Format.SHAPEFILE:
        raise UnknownFormat("a shapefile is published as a zip archive with its .shp and .dbf")
    return Sample(name, form, begin[:most], is_whole and len(begin) <= most)


def _without(name: str, ending: str) -> str:
    return name[: -len(ending)] if name.lower().endswith(ending) else name


def _by_content(begin: bytes) -> Format | None:
    text = begin.lstrip()[:1]
    if begin.startswith(b"PAR1"):
        return Format.PARQUET
    return {b"[": Format.JSON, b"{": Format.NDJSON}.get(text)


Unpacked = tuple[bytes, bool, str | None]
"""The beginning of the unpacked content, whether it is all of it, and the name of the packed
entry."""


def _gunzip(data: bytes, most: int) -> Unpacked:
    try:
        stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        out = stream.decompress(data, most)
    except zlib.error as bad:
        raise DamagedPacking(f"the file is no intact gzip file ({bad})") from None
    return out, stream.eof and not stream.unused_data, None


def _bunzip2(data: bytes, most: int) -> Unpacked:
    try:
        stream = bz2.BZ2Decompressor()
        out = stream.decompress(data, most)
    except (OSError, ValueError) as bad:
        raise DamagedPacking(f"the file is no intact bzip2 file ({bad})") from None
    return out, stream.eof and not stream.unused_data, None


def _unzstd(data: bytes, most: int) -> Unpacked:
    out = bytearray()
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), "zstd") as stream:
            while len(out) < most and (piece := stream.read(min(most - len(out), PIECE_BYTES))):
                out += piece
    except (pa.ArrowException, OSError) as bad:
        if not out:
            raise DamagedPacking(f"the file is no intact zstd file ({bad})") from None
        return bytes(out), False, None  # the sample ends within a frame
    return bytes(out), len(out) < most, None


def _unzip(data: bytes, most: int) -> Unpacked:
    try:
        with zipfile.ZipFile(_Bounded(data)) as archive:
            entries = entries_of(archive)
            if len(entries) != 1:
                raise DamagedPacking(
                    f"the archive holds {len(entries)} files; publish them one by one"
                )
            out = bytearray()
            for piece in unpacked(archive, entries[0], piece_bytes=PIECE_BYTES):
                out += piece
                if len(out) >= most:
                    break
    except DAMAGED as bad:
        raise DamagedPacking(
            f"the file is no intact zip archive that a node can unpack ({bad})"
        ) from None
    return bytes(out[:most]), len(out) < most, PurePath(entries[0].filename).name


class _Bounded(io.BytesIO):
    """Limits each read to the size of a table of contents, since the library keeps the whole table
    in memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = DIRECTORY_BYTES + 1 if size is None or size < 0 else min(size, DIRECTORY_BYTES + 1)
        data = super().read(wanted)
        if len(data) > DIRECTORY_BYTES:
            raise DamagedPacking(
                f"the table of contents of the archive is longer than {DIRECTORY_BYTES} bytes"
            )
        return data


def _holds_shape(data: bytes) -> bool:
    try:
        with zipfile.ZipFile(_Bounded(data)) as archive:
            return any(one.filename.lower().endswith(".shp") for one in entries_of(archive))
    except DAMAGED:
        return False


_PACKINGS: tuple[tuple[re.Pattern[bytes], str, Callable[[bytes, int], Unpacked]], ...] = (
    (re.compile(rb"\x1f\x8b"), ".gz", _gunzip),
    (re.compile(rb"BZh[1-9]1AY&"), ".bz2", _bunzip2),
    (re.compile(rb"\x28\xb5\x2f\xfd"), ".zst", _unzstd),
    (re.compile(rb"PK\x03\x04"), ".zip", _unzip),
)
"""Kinds of packed files: first bytes, ending of the name, and function to unpack."""
EVERYTHING_FIRST = (b"PK\x03\x04",)
"""First bytes of files that are needed completely in order to examine their beginning."""
