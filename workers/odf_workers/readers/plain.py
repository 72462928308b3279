"""Bodies and files in the form that readers accept: unpacked if packed, Parquet if Arrow, CSV if a
workbook, UTF-8 if another encoding.

A source may receive `rows.csv.gz`, `.bz2`, `.zst` or `.zip` without a declaration, since the
formats that readers accept begin with other bytes. A zip archive must contain a single file; a
shapefile is a zip archive, which may be compressed with gzip. Arrow streams are converted to
Parquet first, so that one reader handles all typed columns. A web page instead of data is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.errors import BadInput
from odf_protocol.metadata.reading import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepParquet,
)
from odf_protocol.source_options import options_of
from odf_protocol.source_rules import csv_characters

from ..prepare.gzip import gunzip
from ..prepare.streams import bunzip2, unzstd
from ..prepare.workbook import OLE, ZIP, Dialect, UnusableWorkbook, is_workbook, sheet_as_csv
from ..prepare.zip import entry_names, unzip
from ..runtime.content import Content, mapped, opened
from ..runtime.input_limits import CHUNK_BYTES, MalformedArchive, PrepareLimits
from ..slices.frame import Limits
from .arrow_messages import is_compressed
from .plain_text import TEXTS, Plain, plain_text
from .web_pages import BEGIN_BYTES, refuse_page

ARROW_FILE = b"ARROW1"
STREAMS = (
    (re.compile(rb"\x1f\x8b"), gunzip),
    (re.compile(rb"BZh[1-9]1AY&"), bunzip2),
    (re.compile(rb"\x28\xb5\x2f\xfd"), unzstd),
)
"""First bytes of packed streams, and the function that unpacks each kind."""


class MalformedArrow(BadInput):
    """The bytes are not an Arrow stream, or a damaged one, or one with compressed buffers."""


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
        refuse_page(begin)
    return plain_text(content, step, scratch / "plain-text", limits)


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
        raise MalformedArchive(
            f"the archive holds {len(names)} files, and one is expected: name one in a "
            "`Decompress` step of a polling source, or post the file itself"
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
            raise MalformedArrow(
                "an Arrow file is sent as a stream (application/vnd.apache.arrow.stream)"
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
        raise MalformedArrow(f"the Arrow stream cannot be read: {str(bad)[:200]}") from None


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
                raise MalformedArrow(
                    "the buffers of the Arrow stream are compressed: send them plain, and the body "
                    "with Content-Encoding"
                )
