"""Bodies and files in the form that readers accept: unpacked if packed, Parquet if Arrow, CSV if a
workbook, UTF-8 if another encoding.

A source may receive `rows.csv.gz`, `.bz2`, `.zst` or `.zip` without a declaration, since the
formats that readers accept begin with other bytes. A zip archive must contain a single file; a
shapefile is a zip archive, which may be compressed with gzip. Arrow streams are converted to
Parquet first, so that one reader handles all typed columns. A web page instead of data is refused.

Read the head of a message of an Arrow stream, for facts that the Arrow library does not offer.

Source: Arrow "Message.fbs": the table `Message` has the kind of its header in slot 1 and the header
in slot 2; `DictionaryBatch` has its rows in slot 1; `RecordBatch` has `compression` in slot 3.

Data files of a Kartothek table, each read as a split: its columns become those of the table.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.sources.file_marks import PARQUET
from odf_protocol.sources.json_lines import step_of_lines
from odf_protocol.sources.source_options import options_of
from odf_protocol.sources.source_rules import csv_characters
from odf_storage.datasets.kartothek.rows import in_schema

from ...prepare.run import bunzip2, entry_names, gunzip, unzip, unzstd
from ...prepare.workbook import OLE, ZIP, Dialect, UnusableWorkbook, is_workbook, sheet_as_csv
from ...runtime.command import CHUNK_BYTES, PrepareLimits
from ...runtime.progress import Content, mapped, opened
from ...slices.schema import Limits
from ..values.features import BEGIN_BYTES, refuse_page
from .plain_text import TEXTS, Plain, plain_text

_DICTIONARY, _RECORDS = 2, 3


def is_compressed(head: bytes) -> bool:
    """Whether the buffers that follow the head are compressed. Raises `ValueError` for a damaged
    head."""
    try:
        message = _u32(head, 0)
        kind_at, header_at = _slot(head, message, 1), _slot(head, message, 2)
        if kind_at is None or header_at is None:
            raise ValueError("a message without a header")
        kind, rows = head[kind_at], header_at + _u32(head, header_at)
        if kind == _DICTIONARY:
            if (inside := _slot(head, rows, 1)) is None:
                raise ValueError("a dictionary without rows")
            kind, rows = _RECORDS, inside + _u32(head, inside)
        return kind == _RECORDS and _slot(head, rows, 3) is not None
    except (struct.error, IndexError):
        raise ValueError("a message that is cut short") from None


def _slot(head: bytes, table: int, number: int) -> int | None:
    """Return the position of a table's field; None if it is absent."""
    vtable = table - int(struct.unpack_from("<i", head, table)[0])
    if vtable < 0:
        raise ValueError("a table without fields")
    (size,) = struct.unpack_from("<H", head, vtable)
    place = 4 + 2 * number
    if place + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", head, vtable + place)
    return table + offset if offset else None


def _u32(head: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", head, at)[0])


ARROW_FILE = b"ARROW1"
SHOWN_BYTES = 40
STREAMS = (
    (re.compile(rb"\x1f\x8b"), gunzip),
    (re.compile(rb"BZh[1-9]1AY&"), bunzip2),
    (re.compile(rb"\x28\xb5\x2f\xfd"), unzstd),
)
"""First bytes of packed streams, and the function that unpacks each kind."""


def plain_file(content: Content, step: ReadStep, scratch: Path, limits: Limits) -> Plain:
    """Return the file that a reader reads, and the step to read it by: the given ones, or a file
    created from it in the folder `scratch`, which is created if missing.

    Raises:
        MalformedArchive, DecompressionTooLarge, MalformedArrow, UnusableWorkbook, WebPage.
        BadRow, TooFewLines: as `plain_text`.
    """
    is_archive_wanted = isinstance(step, ReadStepEsriShapefile)
    begin = _begin(content)
    unpack = next((way for mark, way in STREAMS if mark.match(begin)), None)
    if unpack is not None:
        content = _written(unpack(_chunks(content), limits.archives), scratch / "plain")
    elif (
        begin.startswith(ZIP)
        and not is_archive_wanted
        and not is_workbook(content, limits.archives)
    ):
        content = _written(_single_entry(content, limits.archives), scratch / "plain")
    begin = _begin(content)
    if isinstance(step, ReadStepParquet) and _is_arrow(begin):
        target = scratch / "plain.parquet"
        scratch.mkdir(parents=True, exist_ok=True)
        _as_parquet(content, target, is_file=begin.startswith(ARROW_FILE))
        return Plain(target, step)
    if (
        isinstance(step, TEXTS)
        and begin.startswith((ZIP, OLE))
        and is_workbook(content, limits.archives)
    ):
        return _of_sheet(content, step, scratch, limits)
    if isinstance(step, TEXTS):
        refuse_page(begin, step)
    if isinstance(step, ReadStepParquet) and begin and PARQUET.mark.match(begin) is None:
        shown = begin[:SHOWN_BYTES].decode("ascii", "backslashreplace")
        raise BadInput("MalformedParquet", f"not a Parquet file: it begins with {shown!r}")
    if isinstance(step, ReadStepJson):
        step = _of_lines(content, step)
    return plain_text(content, step, scratch / "plain-text", limits)


def _of_lines(content: Content, step: ReadStepJson) -> ReadStep:
    """Return the step for a body that is called a document and has a record on each line; the first
    line has to be among the first bytes."""
    if step.sub_path:
        return step
    with opened(content) as stream:
        kind = step_of_lines(stream.read(CHUNK_BYTES))
    if kind is None:
        return step
    if kind is ReadStepNdGeoJson:
        return ReadStepNdGeoJson(ddl_schema=step.ddl_schema, schema=step.schema)
    return ReadStepNdJson(
        ddl_schema=step.ddl_schema,
        date_format=step.date_format,
        encoding=step.encoding,
        timestamp_format=step.timestamp_format,
        schema=step.schema,
    )


def _of_sheet(content: Content, step: ReadStep, scratch: Path, limits: Limits) -> Plain:
    if not isinstance(step, ReadStepCsv):
        kind = msgspec.to_builtins(step)["kind"]
        raise UnusableWorkbook(
            f"the file is a workbook, and the source reads {kind}: a source of Csv reads a sheet"
        )
    separator, quote, escape = csv_characters(step)
    scratch.mkdir(parents=True, exist_ok=True)
    target = scratch / "sheet.csv"
    dialect = Dialect(separator=separator, quote=quote, escape=escape, columns=limits.columns)
    told = sheet_as_csv(content, options_of(step).sheet, dialect, target, limits.archives)
    text = plain_text(
        target, msgspec.structs.replace(step, encoding=None), scratch / "plain-text", limits
    )
    return replace(text, warnings=(*told, *text.warnings))


def _begin(content: Content) -> bytes:
    with opened(content) as stream:
        return stream.read(BEGIN_BYTES)


def _single_entry(content: Content, limits: PrepareLimits) -> Iterator[bytes]:
    names = entry_names(content, limits)
    if len(names) != 1:
        raise BadInput(
            "MalformedArchive",
            f"the archive holds {len(names)} files, and one is expected: name one in a "
            "`Decompress` step of a polling source, or post the file itself",
        )
    return unzip(content, names[0], limits)


def _chunks(content: Content) -> Iterator[bytes]:
    with opened(content) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _written(chunks: Iterable[bytes], target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        for chunk in chunks:
            out.write(chunk)
    return target


def _is_arrow(begin: bytes) -> bool:
    """Whether the bytes begin a file or a stream; a stream begins with a marker and its schema's
    length."""
    return begin.startswith((ARROW_FILE, b"\xff\xff\xff\xff"))


def _as_parquet(content: Content, target: Path, *, is_file: bool) -> None:
    try:
        if is_file:
            raise BadInput(
                "MalformedArrow",
                "an Arrow file is sent as a stream (application/vnd.apache.arrow.stream)",
            )
        _refuse_compressed(content)
        with (
            mapped(content) as source,
            pa.ipc.open_stream(source) as reader,
            pq.ParquetWriter(target, reader.schema, compression="lz4") as writer,
        ):
            for batch in reader:
                batch.validate(full=True)
                writer.write_batch(batch)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as bad:
        raise BadInput(
            "MalformedArrow", f"the Arrow stream cannot be read: {str(bad)[:200]}"
        ) from None


def _refuse_compressed(content: Content) -> None:
    """Reject compressed buffers: they state their unpacked size, which nothing limits."""
    with mapped(content) as source:
        messages = pa.ipc.MessageReader.open_stream(source)
        while True:
            try:
                message = messages.read_next_message()
            except StopIteration:
                return
            if is_compressed(message.metadata.to_pybytes()):
                raise BadInput(
                    "MalformedArrow",
                    "the buffers of the Arrow stream are compressed: send them plain, and the body "
                    "with Content-Encoding",
                )


@dataclass(frozen=True, slots=True)
class TablePart:
    """The role of a data file in its table: `key` names it in errors, `schema` has the table's
    columns, `values` are the columns given by its key."""

    key: str
    schema: pa.Schema
    values: Mapping[str, pa.Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file on this machine."""

    path: Path
    part: TablePart


@dataclass(frozen=True, slots=True)
class PlainTables:
    """Files of one table, at least one."""

    files: tuple[TableFile, ...]


def in_table(batches: Iterator[pa.RecordBatch], part: TablePart) -> Iterator[pa.RecordBatch]:
    """Convert the rows of a data file to the columns of its table. Raises `TypeConflict`."""
    for batch in batches:
        yield in_schema(batch, part.schema, part.values, key=part.key)


def naming(bad: NodeError, key: str) -> NodeError:
    """Add the name of the file to an error."""
    if key not in bad.message:
        bad.args = (f"{key}: {bad.message}", *bad.args[1:])
    bad.facts.setdefault("key", key)
    return bad
