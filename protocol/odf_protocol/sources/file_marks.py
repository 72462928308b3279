"""What a file is by its first bytes, whatever it is called: kinds that no reader of text takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_AS_PARQUET = "write its table as Parquet, which keeps the types, or as CSV"
_UNPACK = "unpack it, or pack it as .gz, .bz2, .zst or .zip"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file, and what a publisher of it may do."""

    mark: re.Pattern[bytes]
    name: str
    advice: str


PARQUET = FileKind(
    re.compile(rb"PAR1"),
    "a Parquet file",
    "call it .parquet, or post it as application/vnd.apache.parquet",
)
_KINDS = (
    PARQUET,
    FileKind(
        re.compile(rb"ARROW1"),
        "an Arrow file (Feather)",
        "write its table as Parquet, or post it as an Arrow stream",
    ),
    FileKind(
        re.compile(rb"\xff\xff\xff\xff[^\0]"),
        "an Arrow stream",
        "post it as application/vnd.apache.arrow.stream, or write its table as Parquet",
    ),
    FileKind(re.compile(rb"FEA1"), "a Feather file", _AS_PARQUET),
    FileKind(re.compile(rb"ORC[^ -~\t\r\n]"), "an ORC file", _AS_PARQUET),
    FileKind(re.compile(rb"Obj\x01"), "an Avro file", _AS_PARQUET),
    FileKind(re.compile(rb"\x89HDF\r\n"), "an HDF5 file (also of NetCDF 4)", _AS_PARQUET),
    FileKind(re.compile(rb"CDF[\x01\x02\x05]"), "a NetCDF file", _AS_PARQUET),
    FileKind(re.compile(rb"\$FL[23]"), "a file of SPSS", _AS_PARQUET),
    FileKind(re.compile(rb"\0{12}\xc2\xea\x81\x60"), "a table of SAS", _AS_PARQUET),
    FileKind(re.compile(rb"<stata_dta>"), "a file of Stata", _AS_PARQUET),
    FileKind(re.compile(rb"(?:RD[AX][23]\n)?X\n\0\0\0"), "a file of R", _AS_PARQUET),
    FileKind(
        re.compile(rb"SQLite format 3\0"),
        "a database of SQLite (also a GeoPackage)",
        "write each of its tables as Parquet or CSV",
    ),
    FileKind(re.compile(rb"\xfd7zXZ\0"), "a file packed with xz", _UNPACK),
    FileKind(re.compile(rb"7z\xbc\xaf\x27\x1c"), "a 7z archive", _UNPACK),
    FileKind(re.compile(rb"Rar!\x1a\x07"), "a RAR archive", _UNPACK),
    FileKind(re.compile(rb"\x04\x22\x4d\x18"), "a file packed with lz4", _UNPACK),
    FileKind(
        re.compile(rb"[^\0]{1,100}\0{1,155}[0-7 ]{6,7}\0"),
        "a tar archive",
        "post each file of it by itself",
    ),
    FileKind(re.compile(rb"%PDF-"), "a PDF document", "ask its source for the table as CSV"),
    FileKind(re.compile(rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a"), "a picture", "post the data"),
    FileKind(
        re.compile(rb"version https://git-lfs\.github\.com/"),
        "a pointer of Git LFS to a file",
        "fetch the file itself (git lfs pull)",
    ),
    FileKind(
        re.compile(rb"(?:\xef\xbb\xbf)?\s{0,100}<\?xml\s", re.IGNORECASE),
        "an XML document",
        "ask its source for another form, such as CSV or JSON",
    ),
)


def kind_of(begin: bytes) -> FileKind | None:
    """Return the kind of a file that begins like this; None for text, packed files and archives
    that nodes unpack, and others."""
    return next((kind for kind in _KINDS if kind.mark.match(begin)), None)
