"""Read NdJson of flat records, many lines at a time, as far as this agrees with reading each line.

A compiled decoder converts whole lines to typed records. Everything it does not accept (a number in
quotes, a fraction for a whole number, any error), and every line that is not exactly one record,
ends this reading with `LinesNotAgreed`; lines are then read one by one from that row on.

Lines of JSON: each line that is not blank is one value, whatever the other lines are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from operator import attrgetter
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.columns.float_texts import SAFE_DIGITS
from odf_protocol.typed import json_decoder

from ...runtime.progress import Content, opened
from ...slices.schema import BadRow, Limits
from ..values.csv_records import BOM
from ..values.json_scan import DECODER, SHOWN_TEXT, FieldsSeen, Value
from ..values.json_values import AS_DECLARED, ValueRules
from ..values.text import BadValue, cast_text, has_text_form

CHUNK_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r'[^\x00-\x1f"\\]+')
"""Names that the compiled decoder accepts as keys."""
_BLANK, _SPACED = re.compile(rb'"[ \t\r]'), re.compile(rb'"[ \t\r]+:')
"""A blank behind a quote; a name with blanks before its colon, or a text like one."""
_FIGURES = bytes(0 if each in b"0123456789." else 1 for each in range(256))
_LONG = bytes(SAFE_DIGITS[64] + 1)
"""A number that a float may not keep, if its figures are zero bytes."""


class LinesNotAgreed(Exception):
    """The rest has to be read line by line."""


def quick_batches(
    content: Content,
    schema: pa.Schema,
    limits: Limits,
    seen: FieldsSeen,
    how: ValueRules = AS_DECLARED,
) -> Iterator[pa.RecordBatch]:
    """Yield batches from the start of the file; field names are added to `seen`. Raises
    `LinesNotAgreed`, at once or after some batches."""
    decode = _Decoders(schema)
    with opened(content) as stream:
        for lines in _chunks(stream, limits):
            batch, names, texts = _batch(decode, lines, schema, limits, how)
            if not batch.num_rows:
                continue
            colons = _colons(lines)
            if decode.surplus or _may_lack(batch, seen) or colons != names:
                records = records_of(lines)
                if colons != sum(map(len, records)):  # a name may stand twice in a record
                    raise LinesNotAgreed
                seen.note(records)
            else:
                seen.note_names(schema.names)
            for field, of_field in texts:  # lines that are read again tell nothing twice
                how.losses.met(field.name, of_field, field.type)
            _note_floats(lines, schema, how)
            yield batch


def records_of(lines: bytes) -> list[dict[str, Any]]:
    """Return the records of the lines, for their field names. Raises `LinesNotAgreed`."""
    try:
        return json_decoder(dict[str, msgspec.Raw]).decode_lines(lines)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise LinesNotAgreed from None


def _colons(lines: bytes) -> int:
    """Return how many colons stand behind quotes: one for each name, and those in texts."""
    return lines.count(b'":') + (len(_SPACED.findall(lines)) if _BLANK.search(lines) else 0)


def _may_lack(batch: pa.RecordBatch, seen: FieldsSeen) -> bool:
    """Whether a column has no value in the batch, and no earlier record had it."""
    return any(
        column.null_count == batch.num_rows and seen.absent(name)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    )


def _note_floats(lines: bytes, schema: pa.Schema, how: ValueRules) -> None:
    """Note what numbers lose in columns of floats, of which the decoder keeps no texts."""
    floats = [f for f in schema if pa.types.is_floating(f.type) and how.losses.waits(f.name)]
    is_small = b"e-" in lines or b"E-" in lines
    if not floats or not (is_small or _LONG in lines.translate(_FIGURES)):
        return
    records = records_of(lines)
    for field in floats:
        found = [bytes(record[field.name]) for record in records if field.name in record]
        texts = pa.array([text for text in found if text != b"null"], pa.binary())
        how.losses.met(field.name, pc.cast(texts, pa.string()), field.type)


class _Decoders:
    """Decodes lines to records; it is strict until a field appears that the schema lacks."""

    def __init__(self, schema: pa.Schema) -> None:
        self._fields: list[tuple[str, Any, Any]] = []
        self._names: dict[str, str] = {}
        self.surplus = False
        for at, field in enumerate(schema):
            kind = _kind(field.type)
            if kind is None or not _PLAIN_NAME.fullmatch(field.name):
                raise LinesNotAgreed
            self._fields.append((f"f{at}", kind | msgspec.UnsetType | None, msgspec.UNSET))
            self._names[f"f{at}"] = field.name
        self._decoder = self._made(strict=True)

    def lines(self, lines: bytes) -> list[Any]:
        """Decode each line by itself: all at once, two records on a line would be accepted."""
        try:
            return list(map(self._decoder.decode, filter(None, lines.split(b"\n"))))
        except msgspec.ValidationError as bad:
            if self.surplus or "unknown field" not in str(bad):
                raise
        self.surplus = True
        self._decoder = self._made(strict=False)
        return self.lines(lines)

    def _made(self, *, strict: bool) -> msgspec.json.Decoder[Any]:
        record = msgspec.defstruct(
            "Record", self._fields, rename=self._names, gc=False, forbid_unknown_fields=strict
        )
        return json_decoder(record)


def _kind(wanted: pa.DataType) -> Any:
    """Return the Python type of a column's values in the text; None if only the conversion of
    single values knows the rules."""
    if pa.types.is_boolean(wanted):
        return bool
    if pa.types.is_integer(wanted):
        return int
    if pa.types.is_float64(wanted):
        return float
    if pa.types.is_floating(wanted):
        return None
    return str if has_text_form(wanted) else None


def _chunks(stream: BinaryIO, limits: Limits) -> Iterator[bytes]:
    """Yield chunks of whole lines, in valid UTF-8. Raises `LinesNotAgreed`."""
    first = True
    while chunk := stream.read(min(CHUNK_BYTES, limits.row_bytes)):
        if not chunk.endswith(b"\n"):
            chunk += stream.readline(limits.row_bytes + 1)
            if len(chunk) - (chunk.rfind(b"\n", 0, -1) + 1) > limits.row_bytes:
                raise LinesNotAgreed
        if first:
            chunk, first = chunk.removeprefix(BOM), False
        try:
            chunk.decode()
        except UnicodeDecodeError:
            raise LinesNotAgreed from None
        yield chunk


def _batch(
    decode: _Decoders, lines: bytes, schema: pa.Schema, limits: Limits, how: ValueRules
) -> tuple[pa.RecordBatch, int, list[tuple[pa.Field, pa.Array]]]:
    """Return the rows, how many names of columns the records have in all, and the texts of those
    columns that have been made of texts."""
    names, columns = 0, []
    texts: list[tuple[pa.Field, pa.Array]] = []
    try:
        records = decode.lines(lines)
        for at, field in enumerate(schema):
            values = list(map(attrgetter(f"f{at}"), records))
            absent = values.count(msgspec.UNSET)
            if absent:
                values = [None if each is msgspec.UNSET else each for each in values]
            column, of_column = _column(values, field, how)
            columns.append(column)
            if of_column is not None:
                texts.append((field, of_column))
            names += len(values) - absent
    except (msgspec.MsgspecError, ValueError, RecursionError, pa.ArrowException, OverflowError):
        raise LinesNotAgreed from None
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise LinesNotAgreed
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > limits.cell_bytes:
                raise LinesNotAgreed
    return pa.RecordBatch.from_arrays(columns, schema=schema), names, texts


def _column(
    values: list[Any], field: pa.Field, how: ValueRules
) -> tuple[pa.Array, pa.Array | None]:
    """Return the column, and the texts that it was made of, if any."""
    wanted = field.type
    if pa.types.is_boolean(wanted) or pa.types.is_integer(wanted) or pa.types.is_floating(wanted):
        return pa.array(values, wanted), None
    try:
        texts = how.forms.plain(pa.array(values, pa.string()), field.name, wanted)
        return cast_text(texts, wanted), texts
    except BadValue:
        raise LinesNotAgreed from None


BLANKS = b" \t\r\n"


def numbered_lines(content: Content, limits: Limits) -> Iterator[Value]:
    """Yield lines that are not blank, not decoded, with their numbers from 1. Raises
    `InputTooLarge`."""
    with opened(content) as stream:
        for number in count(1):
            line = stream.readline(limits.row_bytes + 1)
            if len(line) > limits.row_bytes:
                raise limits.row_too_large(number)
            if not line:
                return
            if text := (line if number > 1 else line.removeprefix(BOM)).strip(BLANKS):
                yield Value(number, text, len(text))


def value_of(number: int, line: bytes) -> Any:
    """Decode the value of a line without blanks around it. Raises `BadRow`."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise BadRow("the text is not UTF-8", line=number) from None
    try:
        value, end = DECODER.raw_decode(text)
    except RecursionError:
        raise BadRow("the value is nested too deeply", line=number) from None
    except ValueError as bad:
        reason = bad.msg if isinstance(bad, json.JSONDecodeError) else str(bad)
        shown = text[:SHOWN_TEXT]
        raise BadRow(f"the line is not JSON ({reason})", line=number, value=shown) from None
    if end < len(text):
        shown = text[end : end + SHOWN_TEXT].strip()
        raise BadRow("a line holds one record; text follows it", line=number, value=shown)
    return value
