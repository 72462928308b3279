"""The CSV reader: text of separated values to typed batches.

With a schema, the header assigns fields to columns (`protocol/csv_header.py`); without a header
their position does. Without a schema, names come from the header (or are `column_1` …), and types
from the dataset; if the dataset has none, they are text, or inferred if the step demands it. An
empty field is null, quoted or not, and so is one that equals `nullValue`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from odf_node.protocol.csv_header import HeaderMismatch, Matched, match, names_columns
from odf_node.protocol.metadata.reading import ReadStepCsv
from odf_node.protocol.source_options import header_rule
from odf_node.protocol.source_rules import check_read_step, csv_characters

from ..slices.frame import (
    INFER_ROWS,
    BadRow,
    Frame,
    InputTooLarge,
    Limits,
    Unsupported,
    check_names,
)
from .chunks import chunks
from .csv_records import CsvFormat, CsvRecord, CsvRecords
from .forms import Forms, not_of
from .known import Known
from .rejected import Rejected, sifted
from .text import BadValue, cast_text, has_text_form

BLOCK_BYTES = 1 << 20
FEW_BYTES = 2 << 10
"""Size up to which our own tokenizer reads a file, since starting Arrow's takes longer."""
_SCAN_BYTES = 1 << 20
_INFERRED: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("bool", re.compile(r"(?i)true|false")),
    ("int64", re.compile(r"-?\d{1,19}", re.ASCII)),
    (
        "float64",
        re.compile(r"-?((\d*\.\d+|\d+\.\d*)([eE][-+]?\d+)?|\d+[eE][-+]?\d+|inf)|nan|NaN", re.ASCII),
    ),
    ("date", re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)),
    (
        "timestamp",
        re.compile(
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.(\d{1,9}))?"
            r"(?: ?(?:Z|[+-]\d\d(?::?\d\d)?|[A-Za-z][\w/+-]+))?",
            re.ASCII,
        ),
    ),
)
_UNITS = ("date", "s", "ms", "us", "ns")
"""Types of times, by their precision. A time without a zone is in UTC."""
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CsvRead:
    """The state of reading one file."""

    path: Path
    form: CsvFormat
    header: bool
    nulls: frozenset[str]
    limits: Limits
    schema: pa.Schema
    """Columns in the order of the file."""
    forms: Forms
    rejected: Rejected | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        done = 0
        if self.path.stat().st_size > FEW_BYTES and _arrow_agrees(self.path, self.form):
            try:
                for batch in self._arrow_batches():
                    yield batch
                    done += batch.num_rows
                return
            except (pa.ArrowInvalid, BadValue, BadRow, InputTooLarge):
                pass  # read again: our own tokenizer knows the lines and decides
        if self.rejected is not None:
            self.rejected.passed(done)
        yield from self._own_batches(skip=done)

    def _arrow_batches(self) -> Iterator[pa.RecordBatch]:
        small = self.path.stat().st_size <= BLOCK_BYTES
        # A reader of a file starts a thread that reads ahead, which costs more than a small file.
        reader = arrow_csv.open_csv(
            pa.BufferReader(self.path.read_bytes()) if small else self.path,
            **_arrow_options(len(self.schema), self.form, self.nulls),
        )
        first = True
        for block in reader:
            texts = block.slice(1) if first and self.header else block
            first = False
            if texts.num_rows:
                self._check_cells(texts)
                yield self._typed(texts.columns)

    def _check_cells(self, texts: pa.RecordBatch) -> None:
        if self.path.stat().st_size <= self.limits.cell_bytes:
            return
        for column in texts.columns:
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > self.limits.cell_bytes:
                raise BadValue(0, None)

    def lines(self) -> Iterator[int]:
        """Yield the lines on which the rows begin."""
        return (record.line for record in self._rows())

    def _rows(self) -> Iterator[CsvRecord]:
        with self.path.open("rb") as stream:
            records = iter(
                CsvRecords(stream, self.form, self.limits, errors=_errors(self.rejected))
            )
            for header in islice(records, 1 if self.header else 0):
                self._check(header)
            yield from records

    def _own_batches(self, *, skip: int) -> Iterator[pa.RecordBatch]:
        rows = islice(self._rows(), skip, None)
        for chunk in chunks(rows, lambda record: sum(map(len, record.fields))):
            yield from self._sifted(chunk)

    def _sifted(self, chunk: Sequence[CsvRecord]) -> Iterator[pa.RecordBatch]:
        return sifted(
            len(chunk),
            lambda start, stop: self._own_batch(chunk[start:stop]),
            self.rejected,
            lambda at: printable(chunk[at].raw.rstrip("\r\n")),
        )

    def _own_batch(self, chunk: Sequence[CsvRecord]) -> pa.RecordBatch:
        for record in chunk:
            self._check(record)
        texts = [
            pa.array(
                [None if row.fields[at] in self.nulls else row.fields[at] for row in chunk],
                pa.string(),
            )
            for at in range(len(self.schema))
        ]
        try:
            return self._typed(texts)
        except BadValue as bad:
            at, record = bad.column, chunk[bad.index]
            raise self._misfit(record.line, at, record.fields[at]) from None

    def _misfit(self, line: int, at: int, text: str) -> BadRow:
        field = self.schema.field(at)
        if text in self.nulls:
            return BadRow("no value in a required column", line=line, column=field.name)
        return BadRow(not_of(field.type, self.forms), line=line, column=field.name, value=text)

    def _check(self, record: CsvRecord) -> None:
        """Check a record before its values are converted."""
        line, fields, _ = record
        if len(fields) != len(self.schema):
            raise BadRow(f"{len(self.schema)} fields expected, {len(fields)} found", line=line)
        if self.rejected is not None:
            check_decoded(line, fields)
        for field, text in zip(self.schema, fields, strict=True):
            if len(text) > self.limits.cell_bytes // 4:
                size = len(text.encode())
                self.limits.check_cell(size, line=line, column=field.name)

    def _typed(self, texts: Sequence[pa.Array]) -> pa.RecordBatch:
        columns = []
        for at, (field, text) in enumerate(zip(self.schema, texts, strict=True)):
            try:
                column = cast_text(self.forms.iso(text, field.type), field.type)
            except BadValue as bad:
                raise bad.of_column(at) from None
            if not field.nullable and column.null_count:
                index = pc.index(pc.is_null(column), True).as_py()
                raise BadValue(index, None).of_column(at)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@lru_cache
def _arrow_options(columns: int, form: CsvFormat, nulls: frozenset[str]) -> dict[str, Any]:
    """Return the options with which Arrow's tokenizer agrees with ours; all columns are texts."""
    names = [str(number) for number in range(columns)]
    return {
        "read_options": arrow_csv.ReadOptions(
            column_names=names, block_size=BLOCK_BYTES, use_threads=False
        ),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=form.separator,
            quote_char=form.quote,
            escape_char=False,
            newlines_in_values=True,
        ),
        "convert_options": arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=sorted(nulls),
            strings_can_be_null=True,
        ),
    }


def _errors(rejected: Rejected | None) -> str:
    """Return the decoding of invalid UTF-8; a tolerant one lets a single row be set aside."""
    return "strict" if rejected is None else "surrogateescape"


def check_decoded(line: int, fields: Sequence[str]) -> None:
    """Raise `BadRow` if the fields had bytes that are not UTF-8."""
    for text in fields:
        if (shown := printable(text)) != text:
            raise BadRow("the text is not UTF-8", line=line, value=shown)


def printable(text: str) -> str:
    """Return the text, with bytes that were not UTF-8 as escapes."""
    return (
        text
        if text.isascii()
        else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def read_csv(
    step: ReadStepCsv,
    path: Path,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
) -> Frame | None:
    """Open a CSV file; None when it is empty and there is no schema.

    Raises:
        Unsupported: this reader does not know an option or a column type.
        HeaderMismatch: the names in the header differ from those of the schema.
        BadRow, InputTooLarge: raised here for the head of the file, later by the batches.
    """
    check_read_step(step)
    separator, quote, escape = csv_characters(step)
    form = CsvFormat(separator=separator, quote=quote, escape=escape)
    forms = Forms.of(step.date_format, step.timestamp_format)
    nulls = frozenset({"", step.null_value or ""})
    header = bool(step.header)
    matched = None
    if schema is None:
        schema = _schema_of(
            path,
            form,
            header=header,
            infer=step.infer_schema,
            nulls=nulls,
            limits=limits,
            errors=_errors(rejected),
            known=known,
            forms=forms,
        )
        if schema is None:
            return None
    elif header:
        matched = _matched(step, path, form, schema, limits, _errors(rejected))
    else:
        _refuse_header(path, form, schema, limits)
    check_names(schema.names, limits)
    for field in schema:
        if not has_text_form(field.type):
            raise Unsupported(f"column `{field.name}`: Csv has no form for {field.type}")
    stored = schema if matched is None else _as_stored(schema, matched)
    read = _CsvRead(
        path=path,
        form=form,
        header=header,
        nulls=nulls,
        limits=limits,
        schema=stored,
        forms=forms,
        rejected=rejected,
    )
    batches = read.batches()
    if matched is not None and not matched.in_order:
        batches = _in_order(batches, schema, matched)
    warnings = [] if matched is None else list(matched.warnings())
    return Frame(schema, batches, warnings, lines=read.lines())


def _matched(
    step: ReadStepCsv, path: Path, form: CsvFormat, schema: pa.Schema, limits: Limits, errors: str
) -> Matched | None:
    """Match the fields of the file with the columns; None if the file is empty, so that there is no
    header.

    Raises:
        HeaderMismatch.
        BadRow: the header has more or fewer fields than there are columns.
    """
    with path.open("rb") as stream:
        head = next(iter(CsvRecords(stream, form, limits, errors=errors)), None)
    if head is None:
        return None
    check_decoded(head.line, head.fields)
    if len(head.fields) != len(schema):
        reason = f"{len(schema)} fields expected, {len(head.fields)} found"
        raise BadRow(reason, line=head.line)
    try:
        return match(head.fields, schema.names, header_rule(step.schema))
    except HeaderMismatch as bad:
        raise HeaderMismatch(bad.message, **{**bad.facts, "line": head.line}) from None


def _refuse_header(path: Path, form: CsvFormat, schema: pa.Schema, limits: Limits) -> None:
    """Raise `HeaderMismatch` if a file has a header although its source declares none."""
    with path.open("rb") as stream:
        records = iter(CsvRecords(stream, form, limits, errors="surrogateescape"))
        try:
            first = next(records, None)
        except (BadRow, InputTooLarge):  # reported with the rows
            return
    if first is not None and names_columns(first.fields, schema.names):
        raise HeaderMismatch(
            "the first line names the columns, and the source says that there is no header "
            "(`header: true` would say that there is one)",
            line=first.line,
        )


def _as_stored(schema: pa.Schema, matched: Matched) -> pa.Schema:
    """Return the columns in the order of the file."""
    fields = dict(zip(matched.order, schema, strict=True))
    return pa.schema([fields[at] for at in range(len(schema))])


def _in_order(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, matched: Matched
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [batch.column(at) for at in matched.order]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _schema_of(
    path: Path,
    form: CsvFormat,
    *,
    header: bool,
    infer: bool | None,
    nulls: frozenset[str],
    limits: Limits,
    errors: str,
    known: Known | None,
    forms: Forms,
) -> pa.Schema | None:
    with path.open("rb") as stream:
        head = list(islice(CsvRecords(stream, form, limits, errors=errors), INFER_ROWS + 1))
    if not head:
        return None
    check_decoded(head[0].line, head[0].fields)
    first, rows = head[0].fields, head[1:] if header else head[:INFER_ROWS]
    limits.check_columns(len(first))
    names = first if header else [f"column_{number}" for number in range(1, len(first) + 1)]
    texts = [[row.fields[at] for row in rows if at < len(row.fields)] for at in range(len(first))]
    types = [_infer(column, nulls, forms) if infer else pa.string() for column in texts]
    if known is not None:
        types = [known.type_of_text(*pair) for pair in zip(names, types, strict=True)]
    return pa.schema(list(zip(names, types, strict=True)))


def _infer(texts: Sequence[str], nulls: frozenset[str], forms: Forms) -> pa.DataType:
    """Return the common type of the values; the null type if there are none."""
    kinds = {(forms and forms.kind(text)) or _kind(text) for text in texts if text not in nulls}
    if forms and kinds & set(_UNITS) and not all(forms.kind(t) for t in texts if t not in nulls):
        return pa.string()  # times in a format other than the declared one
    if not kinds:
        return pa.null()
    if kinds == {"bool"}:
        return pa.bool_()
    if kinds <= {"int64", "float64"}:
        return pa.float64() if "float64" in kinds else pa.int64()
    if kinds <= set(_UNITS):
        finest = max(kinds, key=_UNITS.index)
        return pa.date32() if finest == "date" else pa.timestamp(finest)
    return pa.string()


def _kind(text: str) -> str:
    for kind, pattern in _INFERRED:
        if match := pattern.fullmatch(text):
            if kind == "timestamp":
                return _UNITS[1 + -(-len(match[1] or "") // 3)]
            return "string" if kind == "int64" and int(text) not in _INT64 else kind
    return "string"


def _arrow_agrees(path: Path, form: CsvFormat) -> bool:
    """Whether Arrow's tokenizer agrees with ours. It does not know escapes that count only inside
    quotes, and accepts a value whose quote is never closed; in that case the number of quotes is
    odd."""
    quote = form.quote.encode()
    escape = b"" if form.escape in (None, form.quote) else str(form.escape).encode()
    escapes, quotes = False, 0
    with path.open("rb") as stream:
        while chunk := stream.read(_SCAN_BYTES):
            escapes = escapes or bool(escape and escape in chunk)
            quotes += chunk.count(quote)
            if escapes and quotes:
                return False
    return quotes % 2 == 0
