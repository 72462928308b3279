"""The readers of JSON texts: NdJson, Json, NdGeoJson and GeoJson.

All four yield values one by one with their line; one function converts values to records, and
another one records to typed batches. NdJson and NdGeoJson have a value per line, which is decoded
when it is converted, so that a line that is no JSON is a bad row like others. Documents are
streamed: memory holds one value and one batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from odf_protocol.columns.scalar_text import is_scalar_text
from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)
from odf_protocol.sources.source_options import options_of
from odf_protocol.sources.source_rules import check_read_step

from ...runtime.progress import Content, opened, size_of
from ...slices.schema import INFER_ROWS, BadRow, Frame, Limits, check_names
from ..values.features import FeaturePages, Features, Known, features_of
from ..values.forms import forms_of
from ..values.json_scan import (
    MAX_REMARKS,
    FieldsSeen,
    JsonScanner,
    Value,
    array_of,
    compact_json,
    keys_of,
)
from ..values.json_values import ValueRules, infer
from ..values.recast import Losses
from ..values.rejected import Rejected, Shape, shaped, typed_batches
from .ndjson_lines import LinesNotAgreed, numbered_lines, quick_batches, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How to find values in a file, and to convert them to records."""

    content: Content
    limits: Limits
    rejected: Rejected | None
    values: Callable[[], Iterator[Value]]
    """Starts at the beginning of the file."""
    shape: Shape
    how: ValueRules
    remarks: dict[str, None] = field(default_factory=dict)
    """Warnings that values and shape give; complete when the values are."""


def read_ndjson(
    step: ReadStepNdJson,
    content: Content,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
) -> Frame | None:
    """Read lines of one object each."""
    check_read_step(step)
    reading = _ndjson(step, content, limits, rejected)
    frame = _frame(reading, schema, known)
    if frame is None or not len(frame.schema) or size_of(content) == 0 or reading.how.json_texts:
        return frame
    seen = FieldsSeen(frame.schema.names)
    warnings: list[str] = []
    batches = _quick_then_slow(reading, frame.schema, seen, warnings)
    return replace(frame, batches=batches, warnings=warnings, names=seen)


def read_json(
    step: ReadStepJson,
    content: Content,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
) -> Frame | None:
    """Read an array of objects, at the root or at `subPath` (dot-separated keys)."""
    check_read_step(step)
    return _frame(_json(step, content, limits, rejected), schema, known)


def read_ndgeojson(
    step: ReadStepNdGeoJson,
    content: Content,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
) -> Frame | None:
    """Read lines of one `Feature` each."""
    return _frame(_ndgeojson(step, content, limits, rejected, known), schema, known)


def read_geojson(
    step: ReadStepGeoJson,
    content: Content,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
) -> Frame | None:
    """Read a `FeatureCollection`: a row per feature, see `features.py`."""
    return _frame(_geojson(step, content, limits, rejected, known), schema, known)


def records(
    step: ReadStep, content: Content, limits: Limits
) -> Iterator[tuple[bytes | str, dict[str, Any]]]:
    """Yield the values of a JSON file as compact JSON, and the record that each becomes, before its
    values get types. Raises `BadInput` as the readers do."""
    reading = _READINGS[type(step)](step, content, limits, None)
    for value in reading.values():
        line = value.content
        text = line if type(line) is bytes else compact_json(line)
        yield text, shaped(value, reading.shape)


def _ndjson(
    step: ReadStepNdJson, content: Content, limits: Limits, rejected: Rejected | None
) -> _Reading:
    return _of_lines(step, content, limits, rejected, _object, {})


def _json(
    step: ReadStepJson, content: Content, limits: Limits, rejected: Rejected | None
) -> _Reading:
    remarks: dict[str, None] = {}
    listed = partial(_listed, step.sub_path or "", _telling(remarks))
    return _Reading(
        content=content,
        limits=limits,
        rejected=rejected,
        values=partial(_scanned, content, limits, listed),
        shape=_object,
        how=_how(step, remarks),
        remarks=remarks,
    )


def _ndgeojson(
    step: ReadStepNdGeoJson,
    content: Content,
    limits: Limits,
    rejected: Rejected | None,
    known: Known | None = None,
) -> _Reading:
    remarks: dict[str, None] = {}
    shape = Features(_telling(remarks), known).record
    return _of_lines(step, content, limits, rejected, shape, remarks)


def _geojson(
    step: ReadStepGeoJson,
    content: Content,
    limits: Limits,
    rejected: Rejected | None,
    known: Known | None = None,
) -> _Reading:
    remarks: dict[str, None] = {}
    tell = _telling(remarks)
    return _Reading(
        content=content,
        limits=limits,
        rejected=rejected,
        values=partial(_scanned, content, limits, partial(features_of, tell=tell)),
        shape=Features(tell, known).record,
        how=_how(step, remarks),
        remarks=remarks,
    )


_READINGS: dict[type, Callable[..., _Reading]] = {
    ReadStepNdJson: _ndjson,
    ReadStepJson: _json,
    ReadStepNdGeoJson: _ndgeojson,
    ReadStepGeoJson: _geojson,
}


def _telling(remarks: dict[str, None]) -> Callable[[str], None]:
    """Return a function that adds a warning; each is added once."""

    def tell(text: str) -> None:
        if len(remarks) < MAX_REMARKS:
            remarks[text] = None

    return tell


def _how(step: ReadStep, remarks: dict[str, None]) -> ValueRules:
    """Return the rules for values, which add what they cut to the remarks. Types that nobody
    declared are inferred: a split of a file is read in those that the beginning of the file
    showed."""
    declares = step.schema is not None or step.ddl_schema is not None
    options = options_of(step)
    texts = {name for name, each in options.columns.items() if each.json_text}
    if options.json_text and step.schema is not None:
        texts |= {column.name for column in step.schema.fields}
    losses = Losses(_telling(remarks))
    return ValueRules(not declares, forms_of(step), options.json_numbers, frozenset(texts), losses)


def _of_lines(
    step: ReadStep,
    content: Content,
    limits: Limits,
    rejected: Rejected | None,
    shape: Shape,
    remarks: dict[str, None],
) -> _Reading:
    return _Reading(
        content=content,
        limits=limits,
        rejected=rejected,
        values=partial(numbered_lines, content, limits),
        shape=lambda number, line: shape(number, value_of(number, line)),
        how=_how(step, remarks),
        remarks=remarks,
    )


def _frame(reading: _Reading, schema: pa.Schema | None, known: Known | None) -> Frame | None:
    if size_of(reading.content) == 0:
        return None if schema is None else Frame.empty(schema)
    values = reading.values()
    head = list(islice(values, INFER_ROWS if schema is None else 1))
    if schema is None:
        records = list(_records(head, reading.shape, reading.rejected))
        if not records:
            return None
        schema = _as_known(infer(records), known)
    check_names(schema.names, reading.limits)
    seen = FieldsSeen(schema.names)
    warnings: list[str] = []
    batches = _noted(reading, chain(head, values), schema, seen, warnings)
    is_document = bool(head) and head[0].number is not None
    return Frame(schema, batches, warnings, seen, _lines(reading), is_document)


def _lines(reading: _Reading) -> Iterator[int]:
    return (value.line for value in reading.values())


def _as_known(found: pa.Schema, known: Known | None) -> pa.Schema:
    """Return the found columns with the types of the dataset, and the dataset's further columns."""
    if known is None:
        return found
    fields = [field.with_type(known.type_of(field.name, field.type)) for field in found]
    return pa.schema([*fields, *known.absent(found.names)])


def _noted(
    reading: _Reading,
    values: Iterator[Value],
    schema: pa.Schema,
    seen: FieldsSeen,
    warnings: list[str],
) -> Iterator[pa.RecordBatch]:
    """Yield typed batches; add warnings at the end."""
    yield from _typed(reading, values, schema, seen)
    _end(reading, seen, warnings)


def _end(reading: _Reading, seen: FieldsSeen, warnings: list[str]) -> None:
    for text in reading.remarks:
        seen.remark(text)
    warnings += seen.warnings()


def _records(
    values: Iterable[Value], shape: Shape, rejected: Rejected | None
) -> Iterator[dict[str, Any]]:
    """Yield the records from which types are inferred; bad ones are set aside later."""
    for value in values:
        try:
            record = shaped(value, shape)
            _check_names(value.line, record)
        except BadRow:
            if rejected is None:
                raise
        else:
            yield record


def _check_names(line: int, value: Any) -> None:
    """Raise `BadRow` for a name that no column can have."""
    if type(value) is dict:
        for name, inner in value.items():
            if not is_scalar_text(name):
                raise BadRow("a name holds half of a surrogate pair", line=line, column=name)
            _check_names(line, inner)
    elif type(value) is list:
        for inner in value:
            _check_names(line, inner)


def _quick_then_slow(
    reading: _Reading, schema: pa.Schema, seen: FieldsSeen, warnings: list[str]
) -> Iterator[pa.RecordBatch]:
    """Read many lines at a time as long as this agrees with reading each line, as the rest is
    read."""
    done = 0
    try:
        for batch in quick_batches(reading.content, schema, reading.limits, seen, reading.how):
            yield batch
            done += batch.num_rows
    except LinesNotAgreed:
        if reading.rejected is not None:
            reading.rejected.passed(done)
        yield from _typed(reading, islice(reading.values(), done, None), schema, seen)
    _end(reading, seen, warnings)


def _scanned(
    content: Content, limits: Limits, values: Callable[[JsonScanner], Iterator[Value]]
) -> Iterator[Value]:
    with opened(content) as stream:
        yield from values(JsonScanner(stream, limits))


def _typed(
    reading: _Reading,
    values: Iterator[Value],
    schema: pa.Schema,
    seen: FieldsSeen,
) -> Iterator[pa.RecordBatch]:
    return typed_batches(
        values, schema, reading.limits, reading.rejected, reading.shape, how=reading.how, seen=seen
    )


def _listed(sub_path: str, tell: Callable[[str], None], scanner: JsonScanner) -> Iterator[Value]:
    """Yield the values of the array at a path, and tell what beside it hints at further pages.
    Raises `SubPathNotFound`."""
    pages = FeaturePages(tell)
    entered = [
        _enter(scanner, key, ".".join(sub_path.split(".")[: depth + 1]), pages)
        for depth, key in enumerate(sub_path.split(".") if sub_path else ())
    ]
    if scanner.peek() != "[":
        raise _no_array(scanner, sub_path)
    count = 0
    for value in array_of(scanner):
        count += 1
        yield value
    for others in reversed(entered):  # to notice a document that was cut short
        for key in others:
            pages.met(key, scanner.value())
    scanner.end()
    pages.ended(count)


def _no_array(scanner: JsonScanner, sub_path: str) -> BadInput:
    """Return an error that names the arrays that a path could lead to."""
    arrays = []
    kind = None
    if scanner.peek() == "{":
        for key in keys_of(scanner):
            if scanner.peek() == "[":
                arrays.append(f"{sub_path}.{key}" if sub_path else key)
                break  # it may be long
            value = scanner.value()
            kind = value if key == "type" else kind
    elif scanner.value() is None and sub_path:
        return BadInput("SubPathNotFound", f"Sub-path not found: {sub_path}")
    hint = "a list of objects is expected; NDJSON, application/x-ndjson, takes one object a line"
    if arrays == ["features"] and kind in (None, "FeatureCollection"):
        hint = "the document is a FeatureCollection, which a source of GeoJson reads"
    elif arrays:
        hint = f"an object has its records deeper, here perhaps at `subPath: {arrays[0]}`"
    return BadInput(
        "SubPathNotFound", f"Sub-path does not specify an array: {sub_path or '.'} ({hint})"
    )


def _object(line: int, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise BadRow("a record must be a JSON object", line=line, value=json.dumps(value))
    return value


def _enter(scanner: JsonScanner, wanted: str, path: str, pages: FeaturePages) -> Iterator[str]:
    """Step to the value of a key of the object that starts here; return the iterator of later
    keys."""
    if scanner.peek() != "{":
        raise BadInput("SubPathNotFound", f"Sub-path not found: {path}")
    keys = keys_of(scanner)
    for key in keys:
        if key == wanted:
            return keys
        pages.met(key, scanner.value())
    raise BadInput("SubPathNotFound", f"Sub-path not found: {path}")
