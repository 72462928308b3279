"""The proposal for a file: a source, a key, an event time; and notes and questions for a person.

A manifest is guessed, and tested: the sample is read by it, as a worker would, through all stages
of a post. The rows that are shown are those that would be stored, keys and times are judged on
them, and what the file says otherwise is a note or a question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from odf_protocol.columns.stored_values import NAIVE
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias, Name
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import (
    AddPushSource,
    DatasetKind,
    DatasetSnapshot,
    SetInfo,
    SetVocab,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from odf_storage.datasets.job_payloads.ingest_job import OnBadRows
from odf_storage.runtime.clock import system_clock

from .columns import JSON_TEXT, ProposedColumn, ProposedColumns, columns_of, columns_read
from .differences import (
    SHORT_YEARS,
    are_doubtful,
    check_event_time,
    check_key,
    differences,
    has_short_years,
    on_short_years,
    parquet_of,
    proposed_event_time,
    proposed_key,
    shapefile_of,
    stored_form,
)
from .documents import documents_of
from .headers import NoRecords, Records
from .options import MERGES, Choices, refuse_others
from .sample import Sample, SampleFormat
from .texts import texts_of

if TYPE_CHECKING:
    from odf_workers.stages.preview import Preview

SOURCE = "default"
SHOWN_ROWS = 5
MAX_BAD_ROWS = 10_000
"""Rows of the sample that may be set aside, if bad rows are."""
MAX_REFUSED = 50
"""Columns that become text because the reader refuses them in their guessed type."""
SYSTEM_NAMES = {
    "offset": "offset_column",
    "op": "operation_type_column",
    "system_time": "system_time_column",
}
"""Columns that every dataset has, and the parameters of the vocabulary that rename them."""
_SYSTEM = ("offset", "operation_type", "system_time", "event_time")
EVENT_TIME = "event_time"
_WITH_PATTERNS = (SampleFormat.CSV, SampleFormat.JSON, SampleFormat.NDJSON)
_FOOTER = "odf-node/footerLines"
_RECORDS = {
    SampleFormat.CSV: texts_of,
    SampleFormat.JSON: documents_of,
    SampleFormat.NDJSON: documents_of,
    SampleFormat.GEOJSON: documents_of,
    SampleFormat.NDGEOJSON: documents_of,
    SampleFormat.PARQUET: parquet_of,
    SampleFormat.SHAPEFILE: shapefile_of,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed dataset for a file."""

    name: str
    format: SampleFormat
    read: ReadStep
    columns: tuple[ProposedColumn, ...]
    key: tuple[str, ...]
    merge: MergeStrategy
    event_time: str | None
    description: str | None
    on_bad_rows: OnBadRows
    looked_at: int
    is_whole: bool
    notes: tuple[str, ...]
    questions: tuple[str, ...]

    def snapshot(self) -> DatasetSnapshot:
        """Return the dataset in the form of a manifest."""
        source = AddPushSource(source_name=SOURCE, read=self.read, merge=self.merge)
        names = {word: new for _, word, new in _renamed(self.columns)}
        if self.event_time is not None:
            names["event_time_column"] = self.event_time
        elif EVENT_TIME in (known := {one.name for one in self.columns}):
            names["event_time_column"] = _free(EVENT_TIME, known)
        vocab = [SetVocab(**names)] if names else []
        info = [] if self.description is None else [SetInfo(description=self.description)]
        name = DatasetAlias.parse(self.name)
        return DatasetSnapshot(name=name, kind=DatasetKind.Root, metadata=(source, *vocab, *info))

    def check_decided(self) -> None:
        """Raise `QuestionOpen` if a person has to answer a question."""
        if self.questions:
            raise BadInput("QuestionOpen", "; ".join(self.questions))

    def rows(self) -> list[list[Any]]:
        """Return the first rows of the sample, as they would be stored."""
        shown = [column.values[:SHOWN_ROWS] for column in self.columns]
        return [list(row) for row in zip(*shown, strict=True)]


def propose(
    sample: Sample, choices: Choices | None = None, *, now: Instant | None = None
) -> Proposal:
    """Propose a dataset for the sample. `now` is the time of the post; by default that of the
    system's clock.

    Raises:
        NoRecords, NotUtf8, UnknownColumn, UnusableChoice, UnusableOption, MalformedName.
        NodeError: a post of the file would be refused, for the same reason.
    """
    chosen, at = choices or Choices(), now or system_clock()
    name = chosen.name or _name(sample.name)
    DatasetAlias.parse(name)
    refuse_others(chosen, sample.format)
    records = _RECORDS[sample.format](sample, chosen)
    draft = Proposal(
        name=name,
        format=sample.format,
        read=records.step,
        columns=(),
        key=(),
        merge=MergeStrategyAppend(),
        event_time=None,
        description=chosen.description,
        on_bad_rows=chosen.on_bad_rows,
        looked_at=0,
        is_whole=records.is_whole,
        notes=records.notes,
        questions=records.questions,
    )
    draft, rows = _with_columns(draft, records, chosen, at)
    _refuse_unknown(draft.columns, chosen)
    draft = _with_event_time(draft, rows, chosen, at)
    draft = _with_key(draft, rows, records, chosen)
    return _proved(draft, records, rows, at)


def _with_columns(
    draft: Proposal, records: Records, chosen: Choices, now: Instant
) -> tuple[Proposal, pa.Table]:
    """Return the draft with the columns that the reader takes, and the rows of the sample."""
    refused: dict[str, str] = {}
    while True:
        if records.names:
            found = columns_of(
                records,
                chosen,
                refused,
                is_text=draft.format is SampleFormat.CSV,
                has_patterns=draft.format in _WITH_PATTERNS,
            )
        else:
            found = columns_read(_untyped(draft, records, now), records.types, chosen)
        tried = replace(draft, columns=found.columns, read=_read(records, found, ()))
        try:
            seen = _seen(tried, records, now)
            break
        except BadInput as bad:
            column = bad.facts.get("column")
            if column not in records.names or column in {*refused, *chosen.types}:
                raise
            refused[str(column)] = _reason(bad)
            if len(refused) > MAX_REFUSED:
                raise
    rows = seen.read.select([one.name for one in found.columns])
    columns = tuple(
        replace(
            one,
            has_nulls=bool(values.null_count),
            values=tuple(map(_shown, values.slice(0, SHOWN_ROWS))),
            is_open=one.name not in chosen.types
            and has_short_years(found.patterns.get(one.kind))
            and are_doubtful(values, now.to_datetime()),
        )
        for one, values in zip(found.columns, rows.columns, strict=True)
    )
    asked = [on_short_years(one.name, rows.column(one.name)) for one in columns if one.is_open]
    empty = () if rows.num_rows else ("the file has no rows, only the names of columns",)
    notes = (
        *draft.notes,
        *empty,
        *_notes(found),
        *_warnings(records, seen),
        *_changes(records, found, seen, rows),
    )
    return (
        replace(
            tried,
            columns=columns,
            looked_at=rows.num_rows,
            notes=tuple(dict.fromkeys(notes)),
            questions=(*draft.questions, *found.questions, *asked),
        ),
        rows,
    )


def _reason(bad: BadInput) -> str:
    """Return why a column is refused, with the first value that it refuses."""
    reason, line, value = (
        getattr(bad, "reason", None),
        bad.facts.get("line"),
        bad.facts.get("value"),
    )
    if reason is None:
        return bad.message
    told = "" if value is None else f"{value!r} is "
    return f"{'' if line is None else f'line {line}: '}{told}{reason}"


def _with_event_time(draft: Proposal, rows: pa.Table, chosen: Choices, now: Instant) -> Proposal:
    if chosen.event_time is None:
        event_time, notes = proposed_event_time(rows, now.to_datetime())
    else:
        event_time, notes = chosen.event_time or None, []
        check_event_time(rows, event_time)
    if event_time is None:
        notes = [*notes, "no column says when a row happened: rows get the time of their post"]
    elif rows.column(event_time).null_count:
        notes = [*notes, f"rows without {event_time} get the time of their post"]
    return replace(draft, event_time=event_time, notes=(*draft.notes, *notes))


def _with_key(draft: Proposal, rows: pa.Table, records: Records, chosen: Choices) -> Proposal:
    key, notes = chosen.key or (), list[str]()
    if chosen.key is not None:
        check_key(rows, chosen.key)
    elif chosen.merge != "append":
        key, notes = proposed_key(rows, is_whole=records.is_whole)
    merge = _merge(key, chosen.merge)
    return replace(draft, key=key, merge=merge, notes=(*draft.notes, *notes))


def _proved(draft: Proposal, records: Records, rows: pa.Table, now: Instant) -> Proposal:
    """Return the proposal after a last reading, by all that it says: each row is stored.

    Raises:
        UnusableChoice: rows would take the place of others.
    """
    full = {one.name for one in draft.columns if not one.has_nulls}
    required = {*draft.key, *([draft.event_time] if draft.event_time in full else [])}
    found = ProposedColumns(columns=draft.columns)
    schema = draft.read.schema
    extra = None if schema is None else schema.extra
    read = structs.replace(draft.read, schema=_schema(found, required, extra))
    proposal = replace(draft, read=read)
    seen = _seen(proposal, records, now)
    if seen.stored.num_rows != rows.num_rows:
        raise BadInput(
            "UnusableChoice",
            f"of {rows.num_rows} rows, {seen.stored.num_rows} would be stored: those of one key "
            "take each other's place; choose more columns, or --no-key",
        )
    return replace(proposal, notes=tuple(dict.fromkeys((*draft.notes, *_warnings(records, seen)))))


def _untyped(draft: Proposal, records: Records, now: Instant) -> pa.Table:
    """Return the rows of a file in its own columns, whatever their names."""
    vocab = SetVocab(**{f"{word}_column": f"odf-node/{word}" for word in _SYSTEM})
    read = structs.replace(draft.read, schema=stored_form(records.types))
    source, *_ = replace(draft, read=read).snapshot().metadata
    snapshot = structs.replace(draft.snapshot(), metadata=(source, vocab))
    rows = _previewed(draft, snapshot, records, now).read
    return rows.drop_columns("odf-node/event_time")


def _seen(draft: Proposal, records: Records, now: Instant) -> Preview:
    """Read the sample by a draft. Raises `NodeError` as a post would."""
    snapshot = draft.snapshot()
    if not records.is_whole:
        snapshot = _of_beginning(snapshot)
    return _previewed(draft, snapshot, records, now)


def _previewed(
    draft: Proposal, snapshot: DatasetSnapshot, records: Records, now: Instant
) -> Preview:
    from odf_workers.stages.preview import preview  # not in the service

    found = preview(
        snapshot,
        records.content,
        now=now,
        max_bad_rows=MAX_BAD_ROWS if draft.on_bad_rows == "quarantine" else None,
        groups=records.groups,
    )
    if found is None:
        raise NoRecords(f"{draft.name} has no records")
    return found


def _of_beginning(snapshot: DatasetSnapshot) -> DatasetSnapshot:
    """Return the dataset for the beginning of a file, which has no footer."""
    source, *others = snapshot.metadata
    assert isinstance(source, AddPushSource)  # noqa: S101 - as `snapshot` makes it
    schema = source.read.schema
    if schema is None or schema.extra is None or _FOOTER not in schema.extra.value:
        return snapshot
    options = {key: value for key, value in schema.extra.value.items() if key != _FOOTER}
    plain = structs.replace(schema, extra=Attributes.of(options) if options else None)
    read = structs.replace(source.read, schema=plain)
    return structs.replace(snapshot, metadata=(structs.replace(source, read=read), *others))


def _read(records: Records, found: ProposedColumns, required: Sequence[str]) -> ReadStep:
    """Return the read step with its schema and options."""
    options = {**records.options, **found.options}
    extra = Attributes.of(options) if options else None
    given: dict[str, Any] = {
        "null_value": found.null_value,
        "date_format": found.patterns.get("Date"),
        "timestamp_format": found.patterns.get("Timestamp"),
    }
    known = {key: value for key, value in given.items() if value is not None}
    return structs.replace(records.step, schema=_schema(found, required, extra), **known)


def _schema(
    found: ProposedColumns, required: Collection[str], extra: Attributes | None
) -> DataSchema:
    fields = tuple(one.declared(is_required=one.name in required) for one in found.columns)
    return DataSchema(fields=fields, extra=extra)


def _shown(value: pa.Scalar) -> Any:
    """Return a value; one that Python cannot represent as text."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return str(pc.cast(value, pa.string()))


def _changes(records: Records, found: ProposedColumns, seen: Preview, rows: pa.Table) -> list[str]:
    """Return what the stored rows do not say as the file does."""
    if seen.rejected:
        first = seen.rejected[0]
        where = "" if first.line is None else f" (line {first.line}: {first.reason})"
        return [f"set aside of the rows looked at: {len(seen.rejected)}{where}"]
    if not records.names:
        return []
    if rows.num_rows != records.count:
        return [f"the file has {records.count} records, of which {rows.num_rows} become rows"]
    notes: list[str] = []
    zoned = "odf-node/timeZone" in found.options
    for one, given, stored in zip(found.columns, records.columns, rows.columns, strict=True):
        if one.kind != JSON_TEXT:
            notes += differences(one.name, found.plain(one, given), stored, zoned=zoned)
    return notes


def _warnings(records: Records, seen: Preview) -> list[str]:
    """Return what the reader tells, but for zones of texts, of which `differences` tells more."""
    told = list(seen.warnings)
    return [each for each in told if not each.endswith(NAIVE)] if records.names else told


KEYED: dict[str, type[MergeStrategyLedger | MergeStrategySnapshot | MergeStrategyUpsertStream]] = {
    "ledger": MergeStrategyLedger,
    "snapshot": MergeStrategySnapshot,
    "upsert": MergeStrategyUpsertStream,
}
"""Merge strategies that need a key, by the names of choices; without a key there is `append`."""


def merge_kind(choice: str) -> str:
    """Return the kind of the merge strategy of a choice, as manifests call it."""
    return str(KEYED.get(choice, MergeStrategyAppend).__struct_config__.tag)


def _merge(key: Sequence[str], merge: str | None) -> MergeStrategy:
    """Return the merge strategy. Raises `UnusableChoice`."""
    chosen = merge or ("upsert" if key else "append")
    if chosen not in MERGES:
        raise BadInput(
            "UnusableChoice", f"merge is one of {', '.join(MERGES)}, not {chosen[:50]!r}"
        )
    if bool(key) != (chosen != "append"):
        raise BadInput("UnusableChoice", f"{chosen} {'has no' if key else 'needs a'} key")
    keyed = KEYED.get(chosen)
    return MergeStrategyAppend() if keyed is None else keyed(primary_key=tuple(key))


def _notes(found: ProposedColumns) -> list[str]:
    notes = [f"{one.name}: {one.note}" for one in found.columns if one.note]
    notes += found.notes
    notes += [
        f"{one.name}: {SHORT_YEARS}"
        for one in found.columns
        if has_short_years(found.patterns.get(one.kind))
    ]
    if found.null_value is not None:
        notes.append(f"{found.null_value!r} stands for no value, in all columns")
    renamed = ", ".join(f"{name} (here {new})" for name, _, new in _renamed(found.columns))
    if renamed:
        notes.append(f"the file has columns that every dataset has itself: {renamed}")
    return notes


def _refuse_unknown(columns: Sequence[ProposedColumn], chosen: Choices) -> None:
    known = {one.name for one in columns}
    for name in (*(chosen.key or ()), *([chosen.event_time] if chosen.event_time else [])):
        if name not in known:
            raise BadInput(
                "UnusableChoice", f"the file has no column {name[:100]!r}", column=name[:100]
            )


def _renamed(columns: Sequence[ProposedColumn]) -> list[tuple[str, str, str]]:
    """Return system columns whose names the file takes, the parameters of the vocabulary that
    rename them, and the new names."""
    names = {one.name for one in columns}
    return [
        (name, word, _free(name, names)) for name, word in SYSTEM_NAMES.items() if name in names
    ]


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def _name(file_name: str) -> str:
    """Derive a dataset name from a file name."""
    stem = PurePath(file_name).stem
    plain = re.sub(r"[^a-zA-Z0-9]+", "-", stem).strip("-").lower()[:100]
    return str(Name(plain or "data"))
