"""The plan of an ingest: a pure function of the chain's state, the request and a time.

Equal arguments give an equal plan, and a plan with equal rows gives equal blocks. Therefore the
result of an interrupted job can be recognised when the job is repeated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from odf_protocol.chain.state import ChainState, Vocab
from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import (
    AddPushSource,
    DatasetKind,
    SetPollingSource,
    SourceState,
    Transform,
)
from odf_protocol.metadata.schema import DataSchema, DataType, DataTypeOption
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    ReadStep,
    ReadStepCsv,
)
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import repeated_marks
from odf_protocol.sources.source_options import options_of
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.stores.ports.errors import RefConflict

from ..readers.formats.read import for_media_type
from .poll import SOURCE_NAME

CHANGELOG_NAME = "changelog"
"""Name of the source that stands for none: of a batch that is a changelog itself."""
NDJSON = "application/x-ndjson"
LAST = Instant.parse("9999-12-31T23:59:59.999Z")
_MOST_S = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """One ingest on top of `head`. `system_time` is the time of blocks and rows,
    `source_event_time` the event time of rows without one."""

    head: Multihash
    source_name: str
    read: ReadStep
    preprocess: Transform | None
    merge: MergeStrategy
    vocab: Vocab
    schema: DataSchema | None
    prev_offset: int | None
    watermark: Instant | None
    source_state: SourceState | None
    """Source state of the newest data block."""
    source_marks: Mapping[str, Any] = field(default_factory=dict)
    """Marks that go with the source state (`odf_protocol/sources/source_rules.py`)."""
    has_history: bool
    system_time: Instant
    source_event_time: Instant
    adds_columns: bool = False
    """Whether columns of the batch that the dataset lacks extend its schema, and that of the
    source."""
    latest: Instant = LAST
    """Event times after it do not move the watermark, which never goes back."""

    @property
    def next_offset(self) -> int:
        """Offset of the first added row."""
        return 0 if self.prev_offset is None else self.prev_offset + 1

    @property
    def coerces(self) -> bool:
        """Whether clashing columns are renamed and the event time is converted by default."""
        return self.preprocess is None and self.read.schema is None

    @property
    def declares(self) -> bool:
        """Whether the source says which columns its rows have, by a schema or a query."""
        return not self.coerces or self.read.ddl_schema is not None


def plan_ingest(
    state: ChainState,
    payload: IngestPayload,
    *,
    now: Instant,
    ahead_s: float | None = None,
) -> IngestPlan:
    """Plan a pushed batch. `ahead_s` is that of `plan_source`.

    Raises:
        RefConflict: the head is not the one that the caller expects.
        NotARootDataset, NotUnderstood: this node cannot ingest into this chain.
        SourceNotFound: no push source, several without a name, or none of that name.
        NothingToCorrect: a changelog, and the dataset has no rows.
        UnsupportedMediaType: there is no reader for the batch's type.
        SnapshotNotWhole: bad rows were to be left out of a snapshot.
        ColumnsAreDeclared: the batch is to add columns, and its source declares them by DDL or a
            query.
    """
    if payload.expected_head is not None and state.head is not None:
        expected = Multihash.parse(payload.expected_head)
        if expected != state.head:
            raise RefConflict(expected, state.head)
    media_type = payload.media_type
    if payload.changelog:
        source, media_type = changelog_source(state), media_type or NDJSON
    else:
        source = select_source(state, payload.source_name)
    if payload.on_bad_rows != "fail" and isinstance(source.merge, MergeStrategySnapshot):
        raise BadInput(
            "SnapshotNotWhole",
            "bad rows of a snapshot cannot be set aside: rows that are absent would be retracted",
        )
    when = Instant.parse(payload.source_event_time) if payload.source_event_time else now
    plan = plan_source(
        state,
        source,
        read=for_media_type(source.read, media_type),
        now=now,
        source_event_time=when,
        ahead_s=ahead_s,
    )
    if not payload.add_columns:
        return plan
    if plan.preprocess is not None or plan.read.ddl_schema is not None:
        raise BadInput(
            "ColumnsAreDeclared",
            f"source '{plan.source_name}' says which columns it has, by a DDL schema or its "
            "query, so a batch adds none: append SetDataSchema with the new columns, then the "
            "source (AddPushSource) with them",
            source=plan.source_name,
        )
    return dataclasses.replace(plan, adds_columns=True)


def plan_source(
    state: ChainState,
    source: AddPushSource | SetPollingSource,
    *,
    read: ReadStep,
    now: Instant,
    source_event_time: Instant,
    ahead_s: float | None = None,
) -> IngestPlan:
    """Plan a batch of a given source. Event times that are more than `ahead_s` seconds ahead of
    `now` do not move the watermark, unless the source names other seconds; None: all move it.

    Raises `NotARootDataset`, `NotUnderstood`, `UnknownSourceOption`.
    """
    state.require_understood()
    if state.kind is not DatasetKind.Root or state.head is None or state.system_time is None:
        raise BadInput("NotARootDataset", "data can be ingested into root datasets only")
    own = options_of(read).watermark_ahead_s
    system_time = max(now, state.system_time)
    return IngestPlan(
        head=state.head,
        source_name=source.source_name if isinstance(source, AddPushSource) else SOURCE_NAME,
        read=read,
        preprocess=source.preprocess,
        merge=source.merge,
        vocab=state.vocab,
        schema=state.data_schema,
        prev_offset=state.last_offset,
        watermark=state.watermark,
        source_state=state.last_source_state,
        source_marks=repeated_marks(state.last_add_data),
        has_history=state.last_offset is not None,
        system_time=system_time,
        source_event_time=source_event_time.floor_millis(),
        latest=_later(system_time, ahead_s if own is None else own),
    )


def _later(time: Instant, seconds: float | None) -> Instant:
    """Return the time so many seconds later, at most the last one that a row may have."""
    if seconds is None:
        return LAST
    return min(Instant(time.ns + int(min(seconds, _MOST_S) * NANOS)), LAST).floor_millis()


def changelog_source(state: ChainState) -> AddPushSource:
    """Return a source that reads the columns of the dataset, and whose rows say by their operation
    what they are. A key finds the row that is taken back; without one all values do.

    Raises `NothingToCorrect`.
    """
    schema, vocab = state.data_schema, state.vocab
    if schema is None:
        raise BadInput(
            "NothingToCorrect", "the dataset has no rows yet, so there is nothing to correct"
        )
    own = (vocab.offset_column, vocab.system_time_column)
    fields = tuple(
        replace(field, type=_optional(field.type))
        if field.name == vocab.event_time_column
        else field
        for field in schema.fields
        if field.name not in own
    )
    values = tuple(field.name for field in fields if field.name != vocab.operation_type_column)
    return AddPushSource(
        source_name=CHANGELOG_NAME,
        read=ReadStepCsv(header=True, escape="", schema=DataSchema(fields=fields)),
        merge=MergeStrategyChangelogStream(primary_key=_key_of_sources(state) or values),
    )


def _optional(kind: DataType) -> DataType:
    """Return the type of values that may be absent: a retraction has the time of its row."""
    return kind if isinstance(kind, DataTypeOption) else DataTypeOption(inner=kind)


def _key_of_sources(state: ChainState) -> tuple[str, ...]:
    """Return the key of the sources; empty if one has none, or another one."""
    sources = [state.polling_source] if state.polling_source else [*state.push_sources.values()]
    keys = {tuple(getattr(source.merge, "primary_key", ())) for source in sources}
    return keys.pop() if len(keys) == 1 else ()


def select_source(state: ChainState, name: str | None) -> AddPushSource:
    """Return the push source of a request. Raises `SourceNotFound`."""
    if state.polling_source is not None:
        raise BadInput("SourceNotFound", "Expected a named push source, found polling source")
    sources = state.push_sources
    if name is not None:
        if name not in sources:
            raise BadInput("SourceNotFound", f"Source '{name}' not found", source=name)
        return sources[name]
    if len(sources) > 1:
        raise BadInput(
            "SourceNotFound",
            "Explicit source name is required to pick between several active push sources",
            sources=sorted(sources),
        )
    if not sources:
        raise BadInput(
            "SourceNotFound",
            "Dataset does not define a default push source, consider specifying the source name",
        )
    return next(iter(sources.values()))
