"""The records of JSON files: their form, the path to them, and their values by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)

from ..client.nodes.limits import one_line
from .headers import MAX_CELLS, MAX_COLUMNS, NoRecords, Records
from .options import Choices
from .sample import RECORD_SEPARATOR, Sample, SampleFormat

MAX_PATH_DEPTH = 4
"""Objects inside of objects in which a list of records is searched."""
_STEPS: dict[SampleFormat, type[ReadStep]] = {
    SampleFormat.JSON: ReadStepJson,
    SampleFormat.NDJSON: ReadStepNdJson,
    SampleFormat.GEOJSON: ReadStepGeoJson,
    SampleFormat.NDGEOJSON: ReadStepNdGeoJson,
}
LINES = (SampleFormat.NDJSON, SampleFormat.NDGEOJSON)


@dataclass(frozen=True, slots=True)
class _Found:
    """Values of a file as JSON, with their records; `is_whole` means that these are all."""

    texts: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    is_whole: bool


def documents_of(sample: Sample, choices: Choices) -> Records:
    """Return the fields of the records of a JSON file as columns.

    Raises:
        NoRecords, NotUtf8.
    """
    path, notes = choices.path, list[str]()
    if sample.data.lstrip().startswith(RECORD_SEPARATOR):
        raise NoRecords(
            f"{sample.name} is a JSON text sequence (RFC 8142): without its record separators "
            "(tr -d '\\036') its lines are NDJSON"
        )
    if sample.format in LINES and sample.name.lower().endswith(".json"):
        notes.append("each line is a record, so the file is read as NDJSON")
    if sample.format is SampleFormat.JSON and path is None:
        path = _path(sample, choices)
        notes += [f"the records are at {path!r} (--path)"] if path else []
    step = _step(sample, choices, path)
    found = _found(sample, step)
    names = _names(sample, found.records)
    columns = tuple(tuple(record.get(name) for record in found.records) for name in names)
    whole = sample.is_whole and found.is_whole
    content = sample.data if whole else _written(sample.format, path, found.texts)
    return Records(
        names=names,
        columns=columns,
        content=content,
        is_whole=whole,
        step=step,
        notes=tuple(notes),
    )


def _step(sample: Sample, choices: Choices, path: str | None) -> ReadStep:
    options: dict[str, Any] = {}
    if sample.format in (SampleFormat.JSON, SampleFormat.NDJSON):
        options["encoding"] = sample.declared(choices.encoding)
    if sample.format is SampleFormat.JSON:
        options["sub_path"] = path or None
    return _STEPS[sample.format](**options)


def _found(sample: Sample, step: ReadStep) -> _Found:
    """Return the records of a sample; of one that is cut, those before the cut.

    Raises:
        NoRecords.
    """
    texts: list[str] = []
    records: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    whole = True
    try:
        for text, record in _values(sample, step):
            seen.update(record)
            if len(seen) > MAX_COLUMNS:
                break
            if len(seen) * (len(records) + 1) > MAX_CELLS:
                whole = False
                break
            texts.append(text if isinstance(text, str) else text.decode())
            records.append(record)
    except BadInput as bad:
        if sample.is_whole or not records:
            raise NoRecords(f"{sample.name}: {bad.message}", **bad.facts) from None
    if len(seen) > MAX_COLUMNS:
        raise NoRecords(f"{sample.name} has more than {MAX_COLUMNS} columns")
    if not records:
        raise NoRecords(f"{sample.name} holds no records, which are JSON objects")
    return _Found(texts, records, whole)


def _values(sample: Sample, step: ReadStep) -> Iterator[tuple[bytes | str, dict[str, Any]]]:
    from odf_workers.stages.preview import json_records  # not in the service

    data = sample.data
    if sample.format in LINES and not sample.is_whole:
        data = data[: data.rfind(b"\n") + 1] or data
    return json_records(step, data)


def _names(sample: Sample, records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for record in records for name in record))
    if odd := [name for name in names if not name.isprintable() or not name.strip()]:
        raise NoRecords(f"{odd[0][:100]!r} is no name of a column of {sample.name}")
    return names


def _path(sample: Sample, choices: Choices) -> str | None:
    """Return the keys of the only list of objects in a document that is an object.

    Raises:
        NoRecords: there is no such list, or there are several.
    """
    data = sample.utf8(choices.encoding).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not data.startswith(b"{"):
        return None
    if not sample.is_whole:
        raise NoRecords(
            f"{sample.name} is an object, and too long to be looked at whole; --path names the "
            "keys of its list of records, --look looks at more"
        )
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as bad:
        lines = ": records on lines of their own are NDJSON (--format ndjson)"
        more = lines if str(bad).startswith("Extra data") else ""
        raise NoRecords(f"{sample.name} is no JSON: {bad}{more}") from None
    if document.get("type") == "Topology":
        raise NoRecords(
            f"{sample.name} is TopoJSON, whose places share their lines; convert it to GeoJSON"
        )
    paths = list(_lists(document, (), MAX_PATH_DEPTH, dict))
    if rows := next(_lists(document, (), MAX_PATH_DEPTH, list), None):
        others = f" (--path takes other lists: {', '.join(paths)})" if paths else ""
        raise NoRecords(
            f"{sample.name} has rows that are lists, at {rows!r}, and records are objects: ask its "
            f"source for another form, such as CSV{others}"
        )
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise NoRecords(
            f"{sample.name} holds no list of records: it is an object. One object a line is "
            "NDJSON (--format ndjson)"
        )
    shown = one_line(", ".join(paths[:5]), 200)
    raise NoRecords(f"{sample.name} holds several lists of records; --path takes one of {shown}")


def _lists(value: Any, keys: tuple[str, ...], depth: int, of: type) -> Iterator[str]:
    """Yield the paths to lists of values of a type."""
    if isinstance(value, list) and keys and value and all(isinstance(one, of) for one in value):
        yield ".".join(keys)
    elif isinstance(value, dict) and depth:
        for key, inner in value.items():
            if key and "." not in key:
                yield from _lists(inner, (*keys, key), depth - 1, of)


def _written(form: SampleFormat, path: str | None, texts: Sequence[str]) -> bytes:
    """Return a file of the given values, of the same form as the one they are from."""
    if form in LINES:
        return ("\n".join(texts) + "\n").encode()
    document = f"[{','.join(texts)}]"
    if form is SampleFormat.GEOJSON:
        return f'{{"type":"FeatureCollection","features":{document}}}'.encode()
    for key in reversed(path.split(".") if path else ()):
        document = f"{{{json.dumps(key)}:{document}}}"
    return document.encode()
