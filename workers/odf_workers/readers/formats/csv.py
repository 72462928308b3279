"""The CSV reader: text of separated values to typed batches.

With a schema, the header assigns fields to columns (`odf_protocol/sources/csv_header.py`);
without a header their position does. Without a schema, names come from the header (or are
`column_1` …), and types from the dataset; if the dataset has none, they are text, or inferred if
the step demands it. An empty field is null, quoted or not, and so is one that equals `nullValue`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStepCsv
from odf_protocol.sources.csv_header import HeaderMismatch, Matched
from odf_protocol.sources.source_options import options_of
from odf_protocol.sources.source_rules import check_read_step, csv_characters

from ...runtime.progress import Content, opened, size_of
from ...slices.schema import (
    INFER_ROWS,
    NO_VALUE,
    BadRow,
    Frame,
    InputTooLarge,
    Limits,
    check_names,
)
from ..values.csv_records import (
    CsvFormat,
    CsvRecord,
    CsvRecords,
    NotAgreed,
    arrow_texts,
    check_decoded,
    matched,
    not_so_wide,
    printable,
    refuse_header,
)
from ..values.features import Known
from ..values.forms import Forms, forms_of, is_number, not_of
from ..values.recast import Losses
from ..values.rejected import Rejected, chunks, sifted
from ..values.text import BadValue, cast_text, has_text_form, parse_one, refuse_padded

FEW_BYTES = 2 << 10
"""Size up to which our own tokenizer reads a file, since starting Arrow's takes longer."""
_INFERRED: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("bool", re.compile(r"(?i)true|false")),
    ("int64", re.compile(r"-?(0|[1-9]\d{0,18})", re.ASCII)),
    (
        "float64",
        re.compile(
            r"\A(?:-?((\d*\.\d+|\d+\.\d*)([eE][-+]?\d+)?|\d+[eE][-+]?\d+|inf)|nan|NaN)", re.ASCII
        ),
    ),
    ("date", re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)),
    (
        "timestamp",
        re.compile(
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.(\d{1,9}))?)?"
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

    content: Content
    form: CsvFormat
    header: bool
    nulls: frozenset[str]
    limits: Limits
    schema: pa.Schema
    """Columns in the order of the file."""
    forms: Forms
    rejected: Rejected | None
    exact: bool
    """Figures with leading zeros are no numbers, since nobody declared that they are."""
    losses: Losses

    def batches(self) -> Iterator[pa.RecordBatch]:
        done = 0
        if size_of(self.content) > FEW_BYTES:
            try:
                for batch in self._arrow_batches():
                    yield batch
                    done += batch.num_rows
                return
            except (pa.ArrowInvalid, NotAgreed, BadValue, BadRow, InputTooLarge):
                pass  # read again: our own tokenizer knows the lines and decides
        if self.rejected is not None:
            self.rejected.passed(done)
        yield from self._own_batches(skip=done)

    def _arrow_batches(self) -> Iterator[pa.RecordBatch]:
        columns = len(self.schema)
        for texts in arrow_texts(self.content, columns, self.form, self.nulls, header=self.header):
            if texts.num_rows:
                self._check_cells(texts)
                yield self._typed(texts.columns)

    def _check_cells(self, texts: pa.RecordBatch) -> None:
        if size_of(self.content) <= self.limits.cell_bytes:
            return
        for column in texts.columns:
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > self.limits.cell_bytes:
                raise BadValue(0, None)

    def lines(self) -> Iterator[int]:
        """Yield the lines on which the rows begin."""
        return (record.line for record in self._rows())

    def _rows(self) -> Iterator[CsvRecord]:
        with opened(self.content) as stream:
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
            return BadRow(NO_VALUE, line=line, column=field.name)
        reason = not_of(field.type, self.forms, column=field.name, value=text)
        return BadRow(reason, line=line, column=field.name, value=text)

    def _check(self, record: CsvRecord) -> None:
        """Check a record before its values are converted."""
        line, fields, _ = record
        if len(fields) != len(self.schema):
            raise not_so_wide(record, len(self.schema), self.form)
        if self.rejected is not None:
            check_decoded(record)
        for at, text in enumerate(fields):
            if len(text) > self.limits.cell_bytes // 4:
                size = len(text.encode())
                self.limits.check_cell(size, line=line, column=self.schema.names[at])

    def _typed(self, texts: Sequence[pa.Array]) -> pa.RecordBatch:
        columns = []
        for at, (field, text) in enumerate(zip(self.schema, texts, strict=True)):
            try:
                if self.exact and is_number(field.type):
                    refuse_padded(text)
                plain = self.forms.plain(text, field.name, field.type)
                column = cast_text(plain, field.type)
                self.losses.met(field.name, plain, field.type)
            except BadValue as bad:
                raise bad.of_column(at) from None
            if not field.nullable and column.null_count:
                index = pc.index(pc.is_null(column), True).as_py()
                raise BadValue(index, None).of_column(at)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _errors(rejected: Rejected | None) -> str:
    """Return the decoding of invalid UTF-8; a tolerant one lets a single row be set aside."""
    return "strict" if rejected is None else "surrogateescape"


def read_csv(
    step: ReadStepCsv,
    content: Content,
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
    form, forms = _format(step), forms_of(step)
    nulls = frozenset({"", step.null_value or ""})
    header = bool(step.header)
    match, exact, warnings = None, schema is None, list[str]()
    if schema is None:
        schema = _schema_of(
            content,
            form,
            header=header,
            infer=step.infer_schema,
            nulls=nulls,
            limits=limits,
            known=known,
            forms=forms,
        )
        if schema is None:
            return None
    elif header:
        rule = options_of(step).header
        match = matched(content, form, schema.names, rule, limits, _errors(rejected))
        if match is not None:
            _refuse_row(match, schema, forms)
            warnings += match.warnings()
    else:
        refuse_header(content, form, schema.names, limits)
    check_names(schema.names, limits)
    _check_types(schema)
    stored = schema if match is None or match.in_order else _as_stored(schema, match)
    read = _CsvRead(
        content=content,
        form=form,
        header=header,
        nulls=nulls,
        limits=limits,
        schema=stored,
        forms=forms,
        rejected=rejected,
        exact=exact,
        losses=Losses(warnings.append),
    )
    batches = read.batches()
    if match is not None and not match.in_order:
        batches = _in_order(batches, schema, match)
    return Frame(schema, batches, warnings, lines=read.lines())


def _refuse_row(match: Matched, schema: pa.Schema, forms: Forms) -> None:
    """Raise `HeaderMismatch` if no field of a header is a name, and those of columns that are no
    texts are values."""
    if len(match.renamed) < len(schema):
        return
    typed = [
        (text, field)
        for (text, _), field in zip(match.renamed, schema, strict=True)
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type))
    ]
    if typed and all(_is_value(text, field, forms) for text, field in typed):
        raise HeaderMismatch(
            "the first line may be a row: it names no column, and its fields are values of them "
            "(`header: false` reads it as one, odf-node/csvHeader: position as a header)",
            line=1,
        )


def _is_value(text: str, field: pa.Field, forms: Forms) -> bool:
    try:
        plain = forms.plain_one(text, field.name, field.type)
        return plain is not None and parse_one(plain, field.type) is not None
    except ValueError:
        return False


def _check_types(schema: pa.Schema) -> None:
    for field in schema:
        if not has_text_form(field.type):
            raise BadInput(
                "Unsupported", f"column `{field.name}`: Csv has no form for {field.type}"
            )


def _format(step: ReadStepCsv) -> CsvFormat:
    separator, quote, escape = csv_characters(step)
    return CsvFormat(separator=separator, quote=quote, escape=escape)


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
    content: Content,
    form: CsvFormat,
    *,
    header: bool,
    infer: bool | None,
    nulls: frozenset[str],
    limits: Limits,
    known: Known | None,
    forms: Forms,
) -> pa.Schema | None:
    """Find the columns from the first rows; bad rows are reported when they are read."""
    with opened(content) as stream:
        records = iter(CsvRecords(stream, form, limits, errors="surrogateescape"))
        head = next(chunks(records, lambda _: 0, most=INFER_ROWS + 1), None)
    if head is None:
        return None
    check_decoded(head[0])
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
    kinds = {forms.kind(text) or _kind(text) for text in texts if text not in nulls}
    if (
        forms.has_patterns
        and kinds & set(_UNITS)
        and not all(forms.kind(t) for t in texts if t not in nulls)
    ):
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
