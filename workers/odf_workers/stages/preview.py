"""Rows of a file as they would be stored: the door by which other rooms read as a worker does.

Proposals for files are made in the command, in a program of a user, and in a process of the
service. What they show is what a post would store, because this module runs the readers and all
stages of a batch in the calling process, and commits nothing.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource, DatasetKind, DatasetSnapshot, Seed
from odf_protocol.metadata.sources import ReadStep, ReadStepCsv

from ..partitions.port import Here
from ..plan.ingest import IngestPlan, plan_source
from ..prepare.workbook import Dialect, sheet_as_csv
from ..readers.formats.json import records
from ..readers.formats.plain import plain_file
from ..readers.formats.plain_text import Plain, plain_text
from ..readers.formats.read import SplitRead, open_frame, schema_of
from ..readers.formats.splits import ReaderSplit
from ..readers.values.csv_records import CsvFormat, CsvRecord, CsvRecords
from ..readers.values.features import BEGIN_BYTES, refuse_page
from ..readers.values.json_values import infer
from ..readers.values.rejected import RejectedRow
from ..runtime.progress import Content, Enclosed
from ..slices.costs import SliceCut
from ..slices.schema import Limits
from .batch import slice_plan
from .pipeline import in_order, is_passing, write
from .read import PostRead
from .read_posts import read

_NOBODY = DatasetId(bytes(32))
"""Identity of the dataset that is never made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a post of a file to a new dataset would do."""

    read: pa.Table
    """The good rows in the order of the file, in the columns and types of the slice."""
    stored: pa.Table
    """The rows of the slices, with their system columns, in the order of their offsets."""
    warnings: tuple[str, ...]
    """Warnings of the receipt."""
    rejected: tuple[RejectedRow, ...]
    """Rows that would be set aside."""


def preview(
    snapshot: DatasetSnapshot,
    content: Path | bytes,
    *,
    now: Instant,
    max_bad_rows: int | None = None,
    groups: tuple[int, ...] | None = None,
) -> Preview | None:
    """Read a file, unpacked, by the push source of a new dataset; None if it is empty and its
    source declares no columns. `max_bad_rows` is the limit of rows that are set aside; by default a
    bad row is an error. `groups` are the row groups of a Parquet file to read; by default all.

    Raises:
        NodeError: a post of the file would be refused.
    """
    with TemporaryDirectory(prefix="preview-") as folder:
        file, plan = _content(content), _plan(snapshot, now)
        plain = plain_file(file, plan.read, Path(folder), Limits())
        return _previewed(plan, plain, Path(folder), max_bad_rows, groups)


def _previewed(
    plan: IngestPlan,
    plain: Plain,
    folder: Path,
    max_bad_rows: int | None,
    groups: tuple[int, ...] | None,
) -> Preview | None:
    way = Here()
    post = PostRead(
        plan=plan,
        split=SplitRead(step=plain.step, limits=Limits(), schema=schema_of(plain.step)),
        cut=SliceCut(),
        max_bad_rows=max_bad_rows,
        passes=is_passing(plan, None),
        is_alone=True,
    )
    rows = read(way, (post,), ((ReaderSplit(file=plain.content, groups=groups),),))
    (found,) = rows.posts
    if found.failure is not None:
        raise found.failure.error()
    if found.schema is None:
        return None
    partitions: Any = rows.partitions
    kept = [batch for batches, _ in partitions.kept for batch in batches]
    schema = pa.schema([found.schema.field(name).with_nullable(True) for name in found.columns])
    typed = [
        pa.RecordBatch.from_arrays(b.select(schema.names).columns, schema=schema) for b in kept
    ]
    ordered = in_order(way, (post,), rows)
    slices = write(way, ordered, slice_plan(plan, found.schema), folder / "slices", post.cut)
    tables = [pq.read_table(each.source()) for each in slices if each.data is not None]
    return Preview(
        read=pa.Table.from_batches(typed, schema),
        stored=pa.concat_tables(tables) if tables else schema.empty_table(),
        warnings=(*plain.warnings, *found.warnings, *ordered.warnings),
        rejected=() if found.rejected is None else tuple(found.rejected.rows()),
    )


def sheet_csv(content: Path | bytes, sheet: str | None) -> tuple[bytes, tuple[str, ...]]:
    """Return a sheet of a workbook as CSV, and warnings. Raises `UnusableWorkbook`,
    `MalformedArchive`."""
    file, limits = _content(content), Limits()
    dialect = Dialect(separator=",", quote='"', escape=None, columns=limits.columns)
    with TemporaryDirectory(prefix="preview-") as folder:
        target = Path(folder) / "sheet.csv"
        told = sheet_as_csv(file, sheet, dialect, target, limits.archives)
        return target.read_bytes(), told


def _content(content: Path | bytes) -> Content:
    return Enclosed(content) if isinstance(content, bytes) else content


def refuse_as_csv(begin: bytes) -> None:
    """Raise `WebPage` if a text begins as something else than a header of CSV, such as JSON."""
    refuse_page(begin[:BEGIN_BYTES], ReadStepCsv(header=True))


def csv_records(
    content: bytes, *, separator: str, quote: str, escape: str | None
) -> Iterator[CsvRecord]:
    """Yield the records of a CSV file with their lines, as the reader separates them. Raises
    `BadRow`."""
    form = CsvFormat(separator=separator, quote=quote, escape=escape)
    return iter(CsvRecords(io.BytesIO(content), form, Limits()))


def json_records(step: ReadStep, content: bytes) -> Iterator[tuple[bytes | str, dict[str, Any]]]:
    """Yield the values of a JSON file as compact JSON, and the record that each becomes, before its
    values get types. Raises `BadInput`."""
    with TemporaryDirectory(prefix="preview-") as folder:
        plain = plain_text(Enclosed(content), step, Path(folder) / "plain", Limits())
        yield from records(plain.step, plain.content, Limits())


def file_columns(step: ReadStep, content: Path | bytes) -> pa.Schema:
    """Return the columns of a file that says its types, as the reader gives them. Raises
    `BadInput`."""
    frame = open_frame(step, _content(content), Limits())
    return pa.schema([]) if frame is None else frame.schema


def nested_type(values: Iterable[Any]) -> pa.DataType:
    """Return the type that the reader infers for the values of a column of JSON records."""
    return infer({"x": value} for value in values).field("x").type


def _plan(snapshot: DatasetSnapshot, now: Instant) -> IngestPlan:
    seed = Seed(dataset_id=_NOBODY, dataset_kind=DatasetKind.Root)
    _, state = author(EMPTY, (seed, *snapshot.metadata), system_time=now)
    (source,) = (each for each in snapshot.metadata if isinstance(each, AddPushSource))
    return plan_source(state, source, read=source.read, now=now, source_event_time=now)
