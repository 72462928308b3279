"""Small bodies of lines, read as one: what reading costs by the body is paid once for many.

Only where each line is a row whatever stands around it: CSV without quotes, and JSON that is
decoded line by line. What is in doubt or wrong is left out: read by itself, it says what is
wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_node.protocol.arrow_schema import to_arrow
from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.csv_header import names_columns
from odf_node.protocol.metadata.reading import ReadStep, ReadStepCsv, ReadStepNdJson
from odf_node.protocol.metadata.schema import DataSchema
from odf_node.storage.stores.ports.values import JobId

from ...plan.ingest import IngestPlan
from ...readers.fields_seen import FieldsSeen
from ...readers.forms import forms_of
from ...readers.ndjson_lines import NotAgreed, quick_batches, records_of
from ...readers.read import open_frame, schema_of
from ...slices.columns import POSITION, Operation
from ...slices.conform import conform
from ...slices.frame import Frame, Limits
from ...slices.schema import MILLIS, slice_schema
from .stage import stage

SMALL_BYTES = 8 * 1024
"""Of a longer body, reading takes longer than beginning to."""
FEW = 4
"""Fewer bodies are not halved to find the one that is wrong."""
_NOT_PLAIN = (b"\r", b"\n\n", b"\xef\xbb\xbf")


@dataclass(frozen=True, slots=True)
class Body:
    """A small body, and what is to become of it."""

    plan: IngestPlan
    content: bytes


@dataclass(frozen=True, slots=True)
class Rows:
    """Those of a body in their final order, without offsets and system time."""

    table: pa.Table
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kind:
    """What bodies that are read as one have in common."""

    read: ReadStep
    vocab: Vocab
    schema: DataSchema | None
    head: bytes


class ReadTogether:
    """Rows of bodies that were read ahead of their batches, by job."""

    def __init__(self, bodies: Mapping[JobId, Body], limits: Limits, folder: Path) -> None:
        self._limits, self._folder = limits, folder
        self._rows: dict[JobId, tuple[_Kind, Rows]] = {}
        kinds: list[tuple[_Kind, list[JobId]]] = []
        for job, body in bodies.items():
            if (kind := _kind(body)) is None:
                continue
            alike = next((jobs for other, jobs in kinds if other == kind), None)
            if alike is None:
                kinds.append((kind, [job]))
            else:
                alike.append(job)
        for number, (kind, jobs) in enumerate(kinds):
            if len(jobs) > 1:
                self._read(kind, [(job, bodies[job]) for job in jobs], f"lines-{number}")

    def rows(self, job: JobId, plan: IngestPlan) -> Rows | None:
        """The rows of a batch; None if it has to be read by itself, or is planned for another
        schema by now."""
        kind, rows = self._rows.get(job, (None, None))
        same = kind is not None and (kind.read, kind.vocab, kind.schema) == (
            plan.read,
            plan.vocab,
            plan.schema,
        )
        return rows if same else None

    def _read(self, kind: _Kind, asked: Sequence[tuple[JobId, Body]], name: str) -> None:
        """All of them; if one is bad, those in the half that is good."""
        try:
            path = self._folder / f"{name}.input"
            found = _tables(kind, [body for _, body in asked], self._limits, path)
        except Exception:  # read by itself, the one it is about will say why
            if len(asked) > FEW:
                middle = len(asked) // 2
                self._read(kind, asked[:middle], f"{name}a")
                self._read(kind, asked[middle:], f"{name}b")
            return
        for (job, _), rows in zip(asked, found, strict=True):
            self._rows[job] = (kind, rows)


def _kind(body: Body) -> _Kind | None:
    """How a body may be read with others; None if it may not."""
    plan, content = body.plan, body.content
    read = plan.read
    if len(content) > SMALL_BYTES or content.startswith(b"\n"):
        return None
    if any(mark in content for mark in _NOT_PLAIN):
        return None
    head = b""
    if isinstance(read, ReadStepCsv):
        if (read.quote or '"').encode() in content:
            return None
        if read.header:
            head, line_end, content = content.partition(b"\n")
            if not line_end:
                return None
        elif _may_be_header(read, content):
            return None
    elif not isinstance(read, ReadStepNdJson) or forms_of(read):
        return None
    if not content or plan.schema is None:
        return None
    if read.schema is None and read.ddl_schema is None:  # types are found out from the rows
        return None
    return _Kind(read, plan.vocab, plan.schema, head)


def _may_be_header(read: ReadStepCsv, content: bytes) -> bool:
    """Whether the first line looks like one; read by itself, the body is refused then."""
    wanted = schema_of(read)
    first = content.partition(b"\n")[0].decode(errors="replace").split(read.separator or ",")
    return wanted is not None and names_columns(first, wanted.names)


def _tables(kind: _Kind, bodies: Sequence[Body], limits: Limits, path: Path) -> list[Rows]:
    """The rows of each body. Raises if one of them is in doubt."""
    contents = [_lines(kind, body.content) for body in bodies]
    counts = [content.count(b"\n") for content in contents]
    head = kind.head + b"\n" if kind.head else b""
    path.write_bytes(head + b"".join(contents))
    rows, schema, told = _staged(kind, bodies[0].plan, limits, path)
    if rows.num_rows != sum(counts):  # never more than lines, so that each is one row if equal
        raise NotAgreed
    starts = [int(end) - count for end, count in zip(np.cumsum(counts), counts, strict=True)]
    warnings = [told] * len(bodies)
    if isinstance(kind.read, ReadStepNdJson):  # what was told is not true of each body
        warnings = [
            _named(kind, rows.slice(start, count), content, doubtful=bool(told))
            for start, count, content in zip(starts, counts, contents, strict=True)
        ]
    table = _final(rows, schema, bodies, counts)
    return [
        Rows(table.slice(start, count), each)
        for start, count, each in zip(starts, counts, warnings, strict=True)
    ]


def _named(kind: _Kind, rows: pa.RecordBatch, content: bytes, *, doubtful: bool) -> tuple[str, ...]:
    """What there is to be said of the names of a body's fields."""
    wanted = schema_of(kind.read)
    names = wanted.names if wanted is not None else []
    if not doubtful and all(rows.column(name).null_count < rows.num_rows for name in names):
        return ()
    seen = FieldsSeen(names)
    seen.note(records_of(content))
    return tuple(seen.warnings())


def _lines(kind: _Kind, content: bytes) -> bytes:
    rows = content[len(kind.head) + 1 :] if kind.head else content
    return rows if rows.endswith(b"\n") else rows + b"\n"


def _staged(
    kind: _Kind, plan: IngestPlan, limits: Limits, path: Path
) -> tuple[pa.RecordBatch, pa.Schema, tuple[str, ...]]:
    """All rows as they came, the schema of the slice, and what is to be said of them."""
    frame = open_frame(kind.read, path, limits)
    wanted = schema_of(kind.read)
    if frame is None or wanted is None or kind.schema is None:
        raise NotAgreed
    seen = None
    if isinstance(kind.read, ReadStepNdJson):  # the slow way takes records over several lines
        seen = FieldsSeen(wanted.names)
        frame = Frame(frame.schema, quick_batches(path, wanted, limits, seen))
    known = to_arrow(kind.schema)
    staged = stage(
        frame,
        path.with_suffix(".parquet"),
        vocab=kind.vocab,
        coerces=plan.coerces,
        takes_operations=False,
        known=known,
    )
    schema = slice_schema(staged.schema, kind.vocab, known)
    batches = staged.rows_of_all().combine_chunks().to_batches()
    if len(batches) != 1 or any(map(pa.types.is_nested, schema.types)):
        raise NotAgreed
    told = frame.warnings if seen is None else seen.warnings()
    return batches[0], schema, tuple(told)


def _final(
    rows: pa.RecordBatch, schema: pa.Schema, bodies: Sequence[Body], counts: Sequence[int]
) -> pa.Table:
    """The rows as they will be written, those of each body by their event time."""
    vocab = bodies[0].plan.vocab
    fallbacks = [body.plan.source_event_time.millis for body in bodies]
    added = {
        vocab.operation_type_column: pa.array(
            np.full(rows.num_rows, int(Operation.APPEND), np.int32)
        )
    }
    columns, fields = [], []
    for field in schema:
        if field.name in (vocab.offset_column, vocab.system_time_column):
            continue
        found = added[field.name] if field.name in added else rows.column(field.name)
        column = conform(found, field.type)
        if field.name == vocab.event_time_column and column.null_count:
            own = pa.array(np.repeat(np.array(fallbacks, np.int64), counts)).cast(MILLIS)
            column = pc.coalesce(column, own.cast(field.type, safe=False))
        if column.null_count and not field.nullable:
            raise NotAgreed
        columns.append(column)
        fields.append(field)
    table = pa.table(columns, pa.schema(fields))
    if max(counts) == 1:
        return table
    number = pa.array(np.repeat(np.arange(len(counts)), counts))
    by = {"number": number, "time": table.column(vocab.event_time_column)}
    keys = pa.table({**by, "position": rows.column(POSITION)})
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return table.take(order)
