"""Open a file by a read step: the table of readers, schemas, and media types.

Read one split of a file as a frame, with the reader of its format.

The bytes of a split are first copied to a new file, after the header if there is one: readers
read files from their beginning, and copying is cheap compared with reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs

from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import BadInput, NodeError
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_protocol.sources.csv_header import WORKBOOK_TYPES

from ...partitions.messages import gathered
from ...partitions.port import File, at_hand
from ...runtime.progress import Content, Enclosed, opened
from ...slices.schema import BadRow, Frame, Limits
from ..values.features import Known
from ..values.rejected import Rejected, TooManyBadRows
from .csv import read_csv
from .json import read_geojson, read_json, read_ndgeojson, read_ndjson
from .parquet import read_parquet
from .plain import naming
from .plain_text import is_plain, plain_text
from .shapefile import read_shapefile
from .splits import ReaderSplit

Reader = Callable[
    [Any, Content, pa.Schema | None, Limits, Rejected | None, Known | None], Frame | None
]
READERS: dict[type, Reader] = {
    ReadStepCsv: read_csv,
    ReadStepJson: read_json,
    ReadStepNdJson: read_ndjson,
    ReadStepGeoJson: read_geojson,
    ReadStepNdGeoJson: read_ndgeojson,
    ReadStepParquet: read_parquet,
    ReadStepEsriShapefile: read_shapefile,
}
MEDIA_TYPES: dict[str, type[ReadStep]] = {
    "text/csv": ReadStepCsv,
    "application/json": ReadStepJson,
    "application/x-ndjson": ReadStepNdJson,
    "application/geo+json": ReadStepGeoJson,
    "application/x-ndgeojson": ReadStepNdGeoJson,
    "application/vnd.apache.parquet": ReadStepParquet,
    "application/parquet": ReadStepParquet,
    "application/x-parquet": ReadStepParquet,
    "application/vnd.apache.arrow.stream": ReadStepParquet,
    **dict.fromkeys(WORKBOOK_TYPES.values(), ReadStepCsv),
    "application/vnd.shp": ReadStepEsriShapefile,
    "x-gis/x-shapefile": ReadStepEsriShapefile,
}


def open_frame(
    step: ReadStep,
    content: Content,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
    *,
    as_declared: bool = True,
) -> Frame | None:
    """Open a file for reading by a read step; None if it is empty and there is no schema.

    Rows that cannot be read fail the batch, or are added to `rejected`. Without a schema, columns
    receive their `known` types where these fit; `as_declared=False` opens the file as if the step
    had none.

    Raises:
        Unsupported: this node does not read this kind of file, or an option.
        UnsupportedSchema: the step's schema has no Arrow form.
        BadInput: the head of the file is wrong; the batches raise later errors.
    """
    reader = READERS.get(type(step))
    if reader is None:
        kind = msgspec.to_builtins(step)["kind"]
        raise BadInput("Unsupported", f"reading {kind} is not supported", kind=kind)
    schema = schema_of(step) if as_declared else None
    if is_plain(content, step):
        return reader(step, content, schema, limits, rejected, known)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="text-")))
        plain = plain_text(content, step, folder / "plain", limits)
        frame = reader(plain.step, plain.content, schema, limits, rejected, known)
        if frame is None:
            return None
        frame.warnings[:0] = plain.warnings
        return replace(frame, batches=closing(frame.batches, stack.pop_all()))


def closing(batches: Iterator[pa.RecordBatch], stack: ExitStack) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and close what they are read from."""
    with stack:
        yield from batches


def schema_of(step: ReadStep) -> pa.Schema | None:
    """Return the schema that a read step declares, in either of its forms. Raises
    `UnsupportedSchema`."""
    if step.schema is not None:
        return to_arrow(step.schema)
    if step.ddl_schema is not None:
        return _of_ddl(tuple(step.ddl_schema))
    return None


@lru_cache
def _of_ddl(columns: tuple[str, ...]) -> pa.Schema:
    from odf_protocol.ddl import parse_ddl

    return to_arrow(parse_ddl(columns))


def for_media_type(step: ReadStep, media_type: str | None) -> ReadStep:
    """Return the step unchanged if the media type is its own, else a default reader with its
    schema.

    Raises:
        UnsupportedMediaType: no reader has that type, ignoring parameters and case.
    """
    if media_type is None:
        return step
    plain = media_type.partition(";")[0].strip().lower()
    kind: Any = MEDIA_TYPES.get(plain)
    if kind is None:
        raise BadInput(
            "UnsupportedMediaType", f"unsupported media type {media_type!r}", media_type=media_type
        )
    if kind is type(step):
        return step
    declared = step.schema is not None or step.ddl_schema is not None
    header = {"header": True} if kind is ReadStepCsv and not declared else {}
    changed: ReadStep = kind(schema=step.schema, ddl_schema=step.ddl_schema, **header)
    return changed


COPY_BYTES = 1 << 20
_LINE = re.compile(r"\bline (\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead:
    """How to read the splits of a file. `schema` is None if there is only one split."""

    step: ReadStep
    limits: Limits
    schema: pa.Schema | None = None
    known: Known | None = None
    names_columns: bool = False


@contextmanager
def open_split(
    read: SplitRead, split: ReaderSplit, rejected: Rejected | None
) -> Iterator[Frame | None]:
    """Yield a frame of the split's rows. Errors have positions in the original file.

    Raises the same errors as `open_frame` and its batches.
    """
    if split.then:
        yield open_splits(read, (replace(split, then=()), *split.then), rejected)
        return
    try:
        with _alone(split, _here(split.file)) as content:
            yield _frame(read, split, content, rejected)
    except NodeError as bad:
        if split.part is not None:
            raise naming(bad, split.part.key) from None
        raise _moved(bad, split.lines) from None


def _frame(
    read: SplitRead, split: ReaderSplit, content: Content, rejected: Rejected | None
) -> Frame | None:
    if split.groups is not None or split.part is not None:
        return read_parquet(
            read.step,  # type: ignore[arg-type]
            content,
            read.schema if split.part is None else schema_of(read.step),
            read.limits,
            rejected,
            read.known,
            groups=split.groups,
            before=split.rows,
            part=split.part,
        )
    if split.is_whole:
        return open_frame(read.step, content, read.limits, rejected, read.known)
    step = _with_header(read.step) if read.names_columns else read.step
    return READERS[type(step)](step, content, read.schema, read.limits, rejected, read.known)


def open_splits(read: SplitRead, splits: Sequence[ReaderSplit], rejected: Rejected | None) -> Frame:
    """Read the rows of several parts of one table, one after the other. Raises the same errors as
    `open_split`."""

    cut: dict[str, str] = {}

    def batches() -> Iterator[pa.RecordBatch]:
        for split in splits:
            with open_split(read, split, rejected) as frame:
                yield from () if frame is None else frame.batches
            if frame is not None:
                cut.update(frame.cut)

    with open_split(read, splits[0], None) as first:
        schema = pa.schema([]) if first is None else first.schema
    return Frame(schema, gathered(batches()), cut=cut)


def _with_header(step: ReadStep) -> ReadStep:
    return structs.replace(step, header=True) if isinstance(step, ReadStepCsv) else step


def _here(file: File | Enclosed) -> Content:
    return file if isinstance(file, Enclosed) else at_hand(file)


@contextmanager
def _alone(split: ReaderSplit, file: Content) -> Iterator[Content]:
    """Yield a file with only the bytes of the split; a whole file or row groups are read in
    place."""
    if split.is_whole or split.groups is not None:
        yield file
        return
    with TemporaryDirectory(prefix="split-") as folder:
        path = Path(folder) / "rows"
        _copy(split, file, path)
        yield path


def _copy(split: ReaderSplit, file: Content, path: Path) -> None:
    with opened(file) as source, path.open("wb") as target:
        target.write(split.head)
        source.seek(split.start)
        left = (split.end or 0) - split.start
        while left > 0 and (chunk := source.read(min(left, COPY_BYTES))):
            target.write(chunk)
            left -= len(chunk)


def _moved(bad: NodeError, lines: int) -> NodeError:
    """Add the number of lines before the split to an error's line; `Rejected` has added it to its
    own."""
    if not lines or isinstance(bad, TooManyBadRows):
        return bad
    if isinstance(bad, BadRow):
        return bad.moved(lines)
    bad.args = (_LINE.sub(lambda at: f"line {int(at[1]) + lines}", bad.message, count=1),)
    if "line" in bad.facts:
        bad.facts["line"] = int(str(bad.facts["line"])) + lines
    return bad
