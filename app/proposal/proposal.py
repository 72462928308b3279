"""The proposal for a file: a source, a key, an event time; and notes and questions for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import PurePath
from typing import Any

from odf_node.protocol.errors import BadInput
from odf_node.protocol.identity import DatasetAlias, Name
from odf_node.protocol.metadata.block import DatasetSnapshot
from odf_node.protocol.metadata.events import AddPushSource, DatasetKind, SetInfo, SetVocab
from odf_node.protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_node.protocol.metadata.schema import DataField, DataSchema

from .columns import Column, Columns, DateOrder, columns_of, optional
from .records import Records, records_of
from .sample import TEXT, Format, Sample

SOURCE = "default"
SHOWN_ROWS = 5
KEY_COLUMNS = 8
"""A key of two columns is searched among this number of columns from the left."""
MERGES = ("append", "ledger", "snapshot", "upsert")
SYSTEM_NAMES = {
    "offset": "offset_column",
    "op": "operation_type_column",
    "system_time": "system_time_column",
}
"""Columns that every dataset has, and the parameters of the vocabulary that rename them."""
_KEY_NAME = re.compile(r"(?i)^(id|key|code|uuid|guid)$|(_|^)(id|key|code)$")
_TIME_NAME = re.compile(r"(?i)^(event_?time|time|timestamp|date|datetime|day|ts)$|_(time|date)$")
_KEY_KINDS = ("Int64", "String", "Date", "Timestamp")
_WITH_PATTERNS = (Format.CSV, Format.JSON, Format.NDJSON)


class UnusableChoice(BadInput):
    """A key, event time or merge that does not fit the file, or each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Decisions of a person; None leaves the decision to the proposal."""

    name: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    event_time: str | None = None
    """Name of a column; an empty name means none, so that rows get the time of their post."""
    merge: str | None = None
    date_order: DateOrder | None = None
    separator: str | None = None
    header: bool | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed dataset for a file. `columns` is empty if the node is to decide on them."""

    name: str
    format: Format
    read: ReadStep
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    merge: MergeStrategy
    event_time: str | None
    description: str | None
    looked_at: int
    is_whole: bool
    notes: tuple[str, ...]
    questions: tuple[str, ...]

    def snapshot(self) -> DatasetSnapshot:
        """Return the dataset in the form of a manifest."""
        source = AddPushSource(source_name=SOURCE, read=self.read, merge=self.merge)
        names = {word: f"_{name}" for name, word in _taken(self.columns).items()}
        if self.event_time is not None:
            names["event_time_column"] = self.event_time
        vocab = [SetVocab(**names)] if names else []
        info = [] if self.description is None else [SetInfo(description=self.description)]
        name = DatasetAlias.parse(self.name)
        return DatasetSnapshot(name=name, kind=DatasetKind.Root, metadata=(source, *vocab, *info))

    def rows(self) -> list[list[Any]]:
        """Return the first rows of the sample."""
        shown = [column.values[:SHOWN_ROWS] for column in self.columns]
        return [list(row) for row in zip(*shown, strict=True)]


def propose(sample: Sample, choices: Choices | None = None) -> Proposal:
    """Propose a dataset for the sample.

    Raises `NoRecords`, `NotUtf8`, `UnknownColumn`, `UnusableChoice`, `MalformedName`.
    """
    chosen = choices or Choices()
    records = records_of(sample, separator=chosen.separator, header=chosen.header)
    name = chosen.name or _name(sample.name)
    DatasetAlias.parse(name)
    if records is None:
        return _unseen(sample, name, chosen)
    is_text = sample.format is Format.CSV
    found = columns_of(
        records,
        chosen.types,
        chosen.date_order,
        is_text=is_text,
        has_patterns=sample.format in _WITH_PATTERNS,
    )
    _refuse_unknown(found.columns, chosen)
    key, key_notes = _key(found.columns, records, chosen)
    event_time = _event_time(found.columns, chosen)
    required = {*key, *([event_time] if event_time else [])}
    fields = tuple(
        DataField(name=one.name, type=optional(one, is_required=one.name in required))
        for one in found.columns
    )
    return Proposal(
        name=name,
        format=sample.format,
        read=_read(sample.format, records, found, DataSchema(fields=fields)),
        columns=found.columns,
        key=key,
        merge=_merge(key, chosen.merge),
        event_time=event_time,
        description=chosen.description,
        looked_at=records.count,
        is_whole=records.is_whole,
        notes=(*records.notes, *key_notes, *_notes(found, event_time)),
        questions=found.questions,
    )


def _unseen(sample: Sample, name: str, chosen: Choices) -> Proposal:
    """Propose a dataset for a file whose columns only a reader can determine: a typed format, or a
    document that is not whole."""
    if chosen.types:
        raise UnusableChoice(f"the types of {sample.format} files are those in the file")
    if sample.format in TEXT:
        note = "too long to be looked at: the node decides on columns and types when it reads it"
    else:
        note = "the node takes columns and types from the file"
    key = chosen.key or ()
    return Proposal(
        name=name,
        format=sample.format,
        read=_STEPS[sample.format](),
        columns=(),
        key=key,
        merge=_merge(key, chosen.merge),
        event_time=chosen.event_time or None,
        description=chosen.description,
        looked_at=0,
        is_whole=False,
        notes=(note,),
        questions=(),
    )


_STEPS: dict[Format, Any] = {
    Format.CSV: ReadStepCsv,
    Format.JSON: ReadStepJson,
    Format.NDJSON: ReadStepNdJson,
    Format.GEOJSON: ReadStepGeoJson,
    Format.NDGEOJSON: ReadStepNdGeoJson,
    Format.PARQUET: ReadStepParquet,
    Format.SHAPEFILE: ReadStepEsriShapefile,
}


def _read(form: Format, records: Records, found: Columns, schema: DataSchema) -> ReadStep:
    patterns = found.patterns or {}
    date, time = patterns.get("Date"), patterns.get("Timestamp")
    match form:
        case Format.CSV:
            return ReadStepCsv(
                header=records.header,
                separator=None if records.separator == "," else records.separator,
                null_value=found.null_value,
                date_format=date,
                timestamp_format=time,
                schema=schema,
            )
        case Format.JSON:
            return ReadStepJson(date_format=date, timestamp_format=time, schema=schema)
        case Format.NDJSON:
            return ReadStepNdJson(date_format=date, timestamp_format=time, schema=schema)
    step: ReadStep = _STEPS[form](schema=schema)
    return step


def _merge(key: Sequence[str], merge: str | None) -> MergeStrategy:
    """Return the merge strategy. Raises `UnusableChoice`."""
    chosen = merge or ("upsert" if key else "append")
    if chosen not in MERGES:
        raise UnusableChoice(f"merge is one of {', '.join(MERGES)}, not {chosen[:50]!r}")
    if bool(key) != (chosen != "append"):
        raise UnusableChoice(f"{chosen} {'has no' if key else 'needs a'} key")
    match chosen:
        case "ledger":
            return MergeStrategyLedger(primary_key=tuple(key))
        case "snapshot":
            return MergeStrategySnapshot(primary_key=tuple(key))
        case "upsert":
            return MergeStrategyUpsertStream(primary_key=tuple(key))
    return MergeStrategyAppend()


def _key(
    columns: Sequence[Column], records: Records, chosen: Choices
) -> tuple[tuple[str, ...], list[str]]:
    """Return columns with distinct values in all rows, and notes. A key is proposed only if all
    rows were read."""
    if chosen.key is not None:
        _refuse_repeated(columns, chosen.key)
        return chosen.key, []
    if chosen.merge == "append" or records.count < 2:
        return (), []
    usable = [one for one in columns if one.kind in _KEY_KINDS and not one.has_nulls]
    usable.sort(key=lambda one: not _KEY_NAME.search(one.name))
    alone = [(one,) for one in usable]
    pairs = combinations(usable[:KEY_COLUMNS], 2)
    found = next((some for some in (*alone, *pairs) if _tells_apart(some)), None)
    if found is None:
        return (), ["no column tells the rows apart, so each post adds its rows"]
    names = tuple(one.name for one in found)
    if not records.is_whole:
        said = ", ".join(names)
        note = f"{said} tells the first {records.count:,} rows apart; if all, say --key {said}"
        return (), [note]
    return names, []


def _tells_apart(columns: Sequence[Column]) -> bool:
    rows = list(zip(*(one.values for one in columns), strict=True))
    return len(set(rows)) == len(rows)


def _refuse_repeated(columns: Sequence[Column], key: Sequence[str]) -> None:
    """Refuse a key that several rows share, since these would replace each other. Raises
    `UnusableChoice`."""
    by_name = {one.name: one for one in columns}
    if nested := [name for name in key if by_name[name].kind not in _KEY_KINDS]:
        raise UnusableChoice(f"{nested[0]} is {by_name[nested[0]].kind}, which is no key")
    seen: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(zip(*(by_name[name].values for name in key), strict=True), 1):
        if (before := seen.setdefault(row, number)) != number:
            raise UnusableChoice(
                f"rows {before} and {number} have the same key ({', '.join(key)}), so that one "
                "would take the place of the other; choose more columns, or --no-key",
                rows=[before, number],
            )
        if None in row:
            raise UnusableChoice(f"row {number} has no value in its key", rows=[number])


def _event_time(columns: Sequence[Column], chosen: Choices) -> str | None:
    if chosen.event_time is not None:
        return chosen.event_time or None
    usable = [one for one in columns if one.kind in ("Date", "Timestamp") and not one.has_nulls]
    named = [one for one in usable if _TIME_NAME.search(one.name)]
    if named:
        return named[0].name
    times = [one for one in usable if one.kind == "Timestamp"] or usable
    return times[0].name if len(times) == 1 else None


def _notes(found: Columns, event_time: str | None) -> list[str]:
    notes = [f"{one.name}: {one.note}" for one in found.columns if one.note]
    if found.null_value is not None:
        notes.append(f"{found.null_value!r} stands for no value, in all columns")
    if any(one.kind == "Timestamp" for one in found.columns):
        notes.append("times without a zone are taken to be in UTC")
    if event_time is None:
        notes.append("no column says when a row happened: rows get the time of their post")
    renamed = ", ".join(f"{name} (here _{name})" for name in _taken(found.columns))
    if renamed:
        notes.append(f"the file has columns that every dataset has itself: {renamed}")
    return notes


def _refuse_unknown(columns: Sequence[Column], chosen: Choices) -> None:
    known = {one.name for one in columns}
    for name in (*(chosen.key or ()), *([chosen.event_time] if chosen.event_time else [])):
        if name not in known:
            raise UnusableChoice(f"the file has no column {name[:100]!r}", column=name[:100])


def _taken(columns: Sequence[Column]) -> dict[str, str]:
    names = {one.name for one in columns}
    return {name: word for name, word in SYSTEM_NAMES.items() if name in names}


def _name(file_name: str) -> str:
    """Derive a dataset name from a file name."""
    stem = PurePath(file_name).stem
    plain = re.sub(r"[^a-zA-Z0-9]+", "-", stem).strip("-").lower()[:100]
    return str(Name(plain or "data"))
