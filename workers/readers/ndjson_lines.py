"""NdJson of flat records, many lines at a time: the quick way, where it agrees with the scanner.

A compiled decoder takes whole lines into typed records. Whatever it does not take (a number in
quotes, a fraction for a whole number, a record over several lines, anything that is wrong) ends
this reading with `NotAgreed`; the scanner then decides from that row on, and knows the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from odf_node.protocol.typed import json_decoder

from ..slices.frame import Limits
from .csv_records import BOM
from .fields_seen import FieldsSeen
from .text import BadValue, cast_text, has_text_form

CHUNK_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r'[^\x00-\x1f"\\]+')
"""What the compiled decoder takes as a key."""


class NotAgreed(Exception):
    """The rest is for the scanner."""


def quick_batches(
    path: Path, schema: pa.Schema, limits: Limits, seen: FieldsSeen
) -> Iterator[pa.RecordBatch]:
    """Batches from the start of the file on; the names records have go into `seen`.
    Raises `NotAgreed`, at once or after some of them."""
    decode = _Decoders(schema)
    with path.open("rb") as stream:
        for lines in _chunks(stream, limits):
            batch = _batch(decode, lines, schema, limits)
            if not batch.num_rows:
                continue
            if decode.surplus or _may_lack(batch, seen):
                seen.note(records_of(lines))
            else:
                seen.note_names(schema.names)
            yield batch


def records_of(lines: bytes) -> list[dict[str, Any]]:
    """What records there are, for the sake of their names. Raises `NotAgreed`."""
    try:
        return json_decoder(dict[str, msgspec.Raw]).decode_lines(lines)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NotAgreed from None


def _may_lack(batch: pa.RecordBatch, seen: FieldsSeen) -> bool:
    """Whether a column without a value was perhaps named by no record so far."""
    return any(
        column.null_count == batch.num_rows and seen.absent(name)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    )


def numbered_lines(path: Path, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1. Raises `InputTooLarge`."""
    with path.open("rb") as stream:
        for number in count(1):
            line = stream.readline(limits.row_bytes + 1)
            if len(line) > limits.row_bytes:
                raise limits.row_too_large(number)
            if not line:
                return
            if content := (line if number > 1 else line.removeprefix(BOM)).strip(b" \t\r\n"):
                yield number, content


class _Decoders:
    """Lines to records: strictly, until there is a field that the schema does not name."""

    def __init__(self, schema: pa.Schema) -> None:
        self._fields: list[tuple[str, Any, Any]] = []
        self._names: dict[str, str] = {}
        self.surplus = False
        for at, field in enumerate(schema):
            kind = _kind(field.type)
            if kind is None or not _PLAIN_NAME.fullmatch(field.name):
                raise NotAgreed
            self._fields.append((f"f{at}", kind | None, None))
            self._names[f"f{at}"] = field.name
        self._decoder = self._made(strict=True)

    def lines(self, lines: bytes) -> list[Any]:
        try:
            return self._decoder.decode_lines(lines)
        except msgspec.ValidationError as bad:
            if self.surplus or "unknown field" not in str(bad):
                raise
        self.surplus = True
        self._decoder = self._made(strict=False)
        return self._decoder.decode_lines(lines)

    def _made(self, *, strict: bool) -> msgspec.json.Decoder[Any]:
        record = msgspec.defstruct(
            "Record", self._fields, rename=self._names, gc=False, forbid_unknown_fields=strict
        )
        return json_decoder(record)


def _kind(wanted: pa.DataType) -> Any:
    """What a value of that column is in the text; None where the scanner has rules of its own."""
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
    """Whole lines, valid UTF-8."""
    first = True
    while chunk := stream.read(CHUNK_BYTES):
        if not chunk.endswith(b"\n"):
            rest = stream.readline(limits.row_bytes + 1)
            if len(rest) > limits.row_bytes:
                raise NotAgreed
            chunk += rest
        if first:
            chunk, first = chunk.removeprefix(BOM), False
        try:
            chunk.decode()
        except UnicodeDecodeError:
            raise NotAgreed from None
        yield chunk


def _batch(decode: _Decoders, lines: bytes, schema: pa.Schema, limits: Limits) -> pa.RecordBatch:
    try:
        records = decode.lines(lines)
        columns = [
            _column(list(map(attrgetter(f"f{at}"), records)), field.type)
            for at, field in enumerate(schema)
        ]
    except (msgspec.MsgspecError, ValueError, RecursionError, pa.ArrowException, OverflowError):
        raise NotAgreed from None
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise NotAgreed
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > limits.cell_bytes:
                raise NotAgreed
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: list[Any], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(wanted) or pa.types.is_integer(wanted) or pa.types.is_floating(wanted):
        return pa.array(values, wanted)
    try:
        return cast_text(pa.array(values, pa.string()), wanted)
    except BadValue:
        raise NotAgreed from None
