"""The beginning of a file as a sample: its format, and as much unpacked content as needed."""

from __future__ import annotations

import bz2
import codecs
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import pyarrow as pa

from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStepNdGeoJson, ReadStepNdJson
from odf_protocol.sources.csv_header import UTF8, encoding_of, marked_encoding
from odf_protocol.sources.file_marks import PARQUET as PARQUET_KIND
from odf_protocol.sources.file_marks import kind_of
from odf_protocol.sources.json_lines import step_of_lines
from odf_storage.runtime.private_files import DAMAGED, entries_of, unpacked

PIECE_BYTES = 16 * 1024
"""Bytes that are unpacked at once. A piece is lost if the sample ends within it."""
DIRECTORY_BYTES = 1 << 20
"""Limit of the bytes of a zip archive's table of contents."""
ARCHIVE_BYTES = 256 << 20
"""Limit of the bytes of a file that is needed completely, and of what it unpacks to."""
PARQUET, ZIP = b"PAR1", b"PK\x03\x04"
SHEETS = frozenset({"xl/workbook.xml", "xl/workbook.bin"})
OPEN_DOCUMENT = b"application/vnd.oasis.opendocument.spreadsheet"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
RECORD_SEPARATOR = b"\x1e"
"""The first byte of JSON text sequences, and of each of their records."""
RARE = 10
"""A text of UTF-16 has more zero bytes than one in as many."""
SAMPLE_BYTES = 4 << 20
"""Default number of unpacked bytes that are examined."""


class SampleFormat(StrEnum):
    """Formats of published files, by the names of their read steps."""

    CSV = "Csv"
    JSON = "Json"
    NDJSON = "NdJson"
    GEOJSON = "GeoJson"
    NDGEOJSON = "NdGeoJson"
    PARQUET = "Parquet"
    SHAPEFILE = "EsriShapefile"


FORMATS: dict[str, SampleFormat] = {
    ".csv": SampleFormat.CSV,
    ".tsv": SampleFormat.CSV,
    ".tab": SampleFormat.CSV,
    ".txt": SampleFormat.CSV,
    ".json": SampleFormat.JSON,
    ".ndjson": SampleFormat.NDJSON,
    ".jsonl": SampleFormat.NDJSON,
    ".geojson": SampleFormat.GEOJSON,
    ".ndgeojson": SampleFormat.NDGEOJSON,
    ".geojsonl": SampleFormat.NDGEOJSON,
    ".parquet": SampleFormat.PARQUET,
    ".shp": SampleFormat.SHAPEFILE,
}
MEDIA_TYPES: dict[SampleFormat, str] = {
    SampleFormat.CSV: "text/csv",
    SampleFormat.JSON: "application/json",
    SampleFormat.NDJSON: "application/x-ndjson",
    SampleFormat.GEOJSON: "application/geo+json",
    SampleFormat.NDGEOJSON: "application/x-ndgeojson",
    SampleFormat.PARQUET: "application/vnd.apache.parquet",
    SampleFormat.SHAPEFILE: "application/vnd.shp",
}
TEXT = frozenset(
    {
        SampleFormat.CSV,
        SampleFormat.JSON,
        SampleFormat.NDJSON,
        SampleFormat.GEOJSON,
        SampleFormat.NDGEOJSON,
    }
)


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of a file: its format, its bytes, and whether they are the whole file."""

    name: str
    """Name of the file, without folders, and without endings of packed files."""
    format: SampleFormat
    data: bytes
    is_whole: bool
    file: Path | None = None
    """The file itself, if its reader does not need to have it in memory."""
    is_workbook: bool = False
    """Whether the text is in a sheet of a workbook."""

    @property
    def content(self) -> bytes | Path:
        return self.data if self.file is None else self.file

    def utf8(self, encoding: str | None) -> bytes:
        """Return the data as UTF-8, given in the encoding, or in the one that its byte order mark
        tells. A character that the end of the sample cuts is left out. Raises `NotUtf8`."""
        codec = self._codec(encoding)
        zeros = self.data[:PIECE_BYTES].count(b"\0") if codec == UTF8 else 0
        if 0 < zeros * RARE <= len(self.data[:PIECE_BYTES]):
            line = self.data.count(b"\n", 0, self.data.find(b"\0")) + 1
            raise BadInput(
                "NotUtf8",
                f"line {line} of {self.name} has a zero byte, which no text has; take it out",
                line=line,
            )
        if zeros:
            raise BadInput(
                "NotUtf8",
                f"{self.name} has zero bytes, as UTF-16 has; --encoding names the encoding, "
                "such as utf-16-le",
                line=1,
            )
        try:
            decoder = codecs.getincrementaldecoder(codec)()
            text = decoder.decode(self.data, final=self.is_whole)
            return self.data if codec == UTF8 and self.is_whole else text.encode()
        except UnicodeError as bad:
            start = bad.start if isinstance(bad, UnicodeDecodeError) else 0
            line = self.data.count(b"\n", 0, start) + 1
            shown = self.data[max(0, start - 12) : start + 12].decode("cp1252", "replace")
            raise BadInput(
                "NotUtf8",
                f"line {line} of {self.name} is not {codec.upper()}; --encoding names another "
                f"encoding, such as windows-1252, which would read {shown!r} here",
                line=line,
            ) from None

    def encoded(self, data: bytes, encoding: str | None) -> bytes:
        """Return a beginning of the data, given in UTF-8, in the encoding of the file."""
        codec = self._codec(encoding)
        return data if codec == UTF8 else data.decode().encode(codec)

    def declared(self, encoding: str | None) -> str | None:
        """Return the encoding that a source has to declare. Raises `NotUtf8`."""
        self._codec(encoding)
        return encoding

    def _codec(self, encoding: str | None) -> str:
        if encoding is None:
            return marked_encoding(self.data) or UTF8
        codec = encoding_of(encoding)
        if codec is None:
            raise BadInput("NotUtf8", f"--encoding: no encoding is called {encoding[:50]!r}")
        return codec


def sample_of(
    file_name: str,
    begin: bytes,
    *,
    is_whole: bool,
    most: int = SAMPLE_BYTES,
    form: SampleFormat | None = None,
) -> Sample:
    """Return a sample of a file with this beginning: at most `most` bytes of its unpacked content.

    For a zip archive `begin` has to be the whole file, since the table of contents is at the end.

    Raises:
        UnknownFormat, DamagedPacking.
    """
    name = PurePath(file_name).name
    if begin.startswith(OLE):
        return Sample(name, SampleFormat.CSV, begin, is_whole, is_workbook=True)
    for mark, ending, unpack in _PACKINGS:
        if mark.match(begin):
            if ending == ".zip" and form in (None, SampleFormat.CSV) and _holds_sheets(begin):
                return Sample(name, SampleFormat.CSV, begin, is_whole, is_workbook=True)
            if ending == ".zip" and form in (None, SampleFormat.SHAPEFILE) and _holds_shape(begin):
                return Sample(_without(name, ending), SampleFormat.SHAPEFILE, begin, is_whole)
            name, packed = _without(name, ending), begin
            begin, ended, inner = unpack(packed, most + 1)
            if begin.startswith(PARQUET) and not ended and is_whole:
                begin, ended, inner = unpack(packed, ARCHIVE_BYTES)
            name, is_whole = inner or name, is_whole and ended
            break
    form = _by_mark(begin, form) or form or _by_name(name, begin) or _by_lines(begin)
    if form is None:
        known = " ".join(FORMATS)
        raise BadInput(
            "UnknownFormat",
            f"cannot tell the format of {name} (known: {known}); say it by --format, which is csv "
            "for text of rows and fields",
        )
    if form is SampleFormat.SHAPEFILE:
        raise BadInput(
            "UnknownFormat", "a shapefile is published as a zip archive with its .shp and .dbf"
        )
    if form is SampleFormat.PARQUET:
        return Sample(name, form, begin, is_whole)
    return Sample(name, form, begin[:most], is_whole and len(begin) <= most)


def sample_of_file(
    file: Path, *, most: int = SAMPLE_BYTES, form: SampleFormat | None = None
) -> Sample:
    """Return a sample of a file on this machine. Raises the same errors as `sample_of`."""
    with file.open("rb") as stream:
        if form in (None, SampleFormat.PARQUET) and stream.read(len(PARQUET)) == PARQUET:
            return Sample(file.name, SampleFormat.PARQUET, b"", True, file)
        stream.seek(0)
        return sample_of_stream(file.name, stream, most=most, form=form)


def sample_of_stream(
    name: str, stream: BinaryIO, *, most: int = SAMPLE_BYTES, form: SampleFormat | None = None
) -> Sample:
    """Return a sample of an open file, wherever its position is: processes that look at a file at
    the same time may share it. Raises the same errors as `sample_of`."""
    file = stream.fileno()
    begin, size = _beginning(file, most), os.fstat(file).st_size
    if begin.startswith(EVERYTHING_FIRST):
        begin = _beginning(file, ARCHIVE_BYTES)
        if size > len(begin):
            raise BadInput(
                "UnknownFormat",
                f"{name} has more than {ARCHIVE_BYTES >> 20} MiB, and is needed whole; unpack it",
            )
    return sample_of(name, begin, is_whole=size <= len(begin), most=most, form=form)


def _beginning(file: int, most: int) -> bytes:
    """Read the first bytes of an open file, whose position stays."""
    begin = bytearray()
    while len(begin) < most and (piece := os.pread(file, most - len(begin), len(begin))):
        begin += piece
    return bytes(begin)


def format_of(file_name: str, begin: bytes) -> SampleFormat:
    """Return the format of a file with this beginning; a zip archive has to be whole. Raises the
    same errors as `sample_of`."""
    return sample_of(file_name, begin, is_whole=False, most=PIECE_BYTES).format


def _without(name: str, ending: str) -> str:
    return name[: -len(ending)] if name.lower().endswith(ending) else name


_OF_LINES: dict[type | None, SampleFormat] = {
    ReadStepNdJson: SampleFormat.NDJSON,
    ReadStepNdGeoJson: SampleFormat.NDGEOJSON,
}


def _by_name(name: str, begin: bytes) -> SampleFormat | None:
    """Return the format that the ending says; features are GeoJSON by either ending."""
    form = FORMATS.get(PurePath(name).suffix.lower())
    if form is SampleFormat.JSON:
        return (
            SampleFormat.GEOJSON
            if _FEATURES.match(begin)
            else _OF_LINES.get(step_of_lines(begin)) or form
        )
    return form


def _by_mark(begin: bytes, form: SampleFormat | None) -> SampleFormat | None:
    """Return the format that the first bytes say whatever the name. Raises `UnknownFormat` for a
    kind of file that is not read, or not as the wanted format."""
    kind = kind_of(begin)
    if kind is None:
        return None
    if kind is not PARQUET_KIND:
        raise BadInput(
            "UnknownFormat", f"the file is {kind.name}, which is not read: {kind.advice}"
        )
    if form not in (None, SampleFormat.PARQUET):
        raise BadInput("UnknownFormat", f"the file is {kind.name}: --format parquet reads it")
    return SampleFormat.PARQUET


def _by_lines(begin: bytes) -> SampleFormat | None:
    text = begin.lstrip()[:1]
    if _FEATURES.match(begin):
        return SampleFormat.GEOJSON
    if text in (b"{", RECORD_SEPARATOR):
        return _OF_LINES.get(step_of_lines(begin)) or SampleFormat.NDJSON
    return SampleFormat.JSON if text == b"[" else None


MEMBER_BYTES = 4096
"""Bytes of a packed file that are unpacked in one step."""
_FILLING = re.compile(rb"\0*")
_FEATURES = re.compile(rb'\s{0,100}\{[^\[{]{0,1000}"type"\s{0,100}:\s{0,100}"FeatureCollection"')
"""The beginning of a document of features, whose members before `type` are texts and numbers."""
Unpacked = tuple[bytes, bool, str | None]
"""The beginning of the unpacked content, whether it is all of it, and the name of the packed
entry."""


def _gunzip(data: bytes, most: int) -> Unpacked:
    try:
        return _members(lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), data, most)
    except zlib.error as bad:
        raise BadInput("DamagedPacking", f"the file is no intact gzip file ({bad})") from None


def _bunzip2(data: bytes, most: int) -> Unpacked:
    try:
        return _members(bz2.BZ2Decompressor, data, most)
    except (OSError, ValueError) as bad:
        raise BadInput("DamagedPacking", f"the file is no intact bzip2 file ({bad})") from None


def _members(begun: Callable[[], Any], data: bytes, most: int) -> Unpacked:
    """Unpack the parts of a packed file one behind the other: appended files, and those of programs
    that pack at several places at once, have many. Zero bytes may fill up the end."""
    out, at, part = bytearray(), 0, begun()
    while at < len(data) and len(out) < most:
        if part.eof:
            part = begun()
        # Little at a time: what follows a part is copied at its end, and there may be many.
        piece = data[at : at + MEMBER_BYTES]
        out += part.decompress(piece, most - len(out))
        at += len(piece) - len(part.unused_data)
        if part.eof and (filled := _FILLING.match(data, at)):
            at = filled.end()
    return bytes(out), part.eof and at == len(data), None


def _unzstd(data: bytes, most: int) -> Unpacked:
    out = bytearray()
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), "zstd") as stream:
            while len(out) < most and (piece := stream.read(min(most - len(out), PIECE_BYTES))):
                out += piece
    except (pa.ArrowException, OSError) as bad:
        if not out:
            raise BadInput("DamagedPacking", f"the file is no intact zstd file ({bad})") from None
        return bytes(out), False, None  # the sample ends within a frame
    return bytes(out), len(out) < most, None


def _unzip(data: bytes, most: int) -> Unpacked:
    try:
        with zipfile.ZipFile(_Bounded(data)) as archive:
            entries = entries_of(archive)
            if len(entries) != 1:
                raise BadInput(
                    "DamagedPacking",
                    f"the archive holds {len(entries)} files; publish them one by one",
                )
            out = bytearray()
            for piece in unpacked(archive, entries[0], piece_bytes=PIECE_BYTES):
                out += piece
                if len(out) >= most:
                    break
    except DAMAGED as bad:
        raise BadInput(
            "DamagedPacking", f"the file is no intact zip archive that a node can unpack ({bad})"
        ) from None
    return bytes(out[:most]), len(out) < most, PurePath(entries[0].filename).name


class _Bounded(io.BytesIO):
    """Limits each read to the size of a table of contents, since the library keeps the whole table
    in memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = DIRECTORY_BYTES + 1 if size is None or size < 0 else min(size, DIRECTORY_BYTES + 1)
        data = super().read(wanted)
        if len(data) > DIRECTORY_BYTES:
            raise BadInput(
                "DamagedPacking",
                f"the table of contents of the archive is longer than {DIRECTORY_BYTES} bytes",
            )
        return data


def _holds_sheets(data: bytes) -> bool:
    """Whether an archive is a workbook, by the names of its parts."""
    try:
        with zipfile.ZipFile(_Bounded(data)) as archive:
            entries = {one.filename: one for one in archive.filelist}
            kind = entries.get("mimetype")
            begin = b"" if kind is None else _first(archive, kind)
    except DAMAGED:
        return False
    return bool(entries.keys() & SHEETS) or begin.startswith(OPEN_DOCUMENT)


def _first(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    return next(unpacked(archive, entry, piece_bytes=PIECE_BYTES), b"")


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
EVERYTHING_FIRST = (ZIP, PARQUET, OLE)
"""First bytes of files that are needed completely in order to examine their beginning."""
