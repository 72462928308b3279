"""The state of a chain as of one block: `EMPTY`, then `after(block)` for every block.

The state has everything that rules and planners need, so that neither reads the chain again. It
is immutable, and successive states share what did not change. `after` checks nothing; `rules.py`
does. The table `CHANGES` defines what each event changes.

An event of a newer writer changes nothing that this version knows. Its block is recorded in
`not_understood`. If it is a new form of a known event, that kind is `clouded`: what the state
says about it may be outdated, and rules that need it are skipped until a known event replaces it.

A chain state as bytes, so that it need not be folded again. Only the same program reads it.

Events are stored as blocks in the encoding of chains, which can represent every event in a
state. A summary has a form number; one with another number cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, structs
from msgspec.structs import replace

from ..codec.blocks import decode_block, encode_block
from ..errors import BadInput
from ..identity import DatasetId
from ..instant import Instant
from ..metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    HashedBlock,
    MetadataBlock,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    UnknownEvent,
)
from ..metadata.schema import DataSchema
from ..multihash import Multihash
from ..references import LinkedObjects, linked_objects
from .schema_evolution import odf_schema

Changes = dict[str, Any]

NOT_UNDERSTOOD_KEPT = 100
"""Limit of recorded hashes of blocks of newer writers; the first ones are enough."""


class Vocab(Struct, frozen=True, kw_only=True):
    """Effective names of the system columns, and the event that set them, if there is one."""

    offset_column: str = "offset"
    operation_type_column: str = "op"
    system_time_column: str = "system_time"
    event_time_column: str = "event_time"
    event: SetVocab | None = None

    @classmethod
    def of(cls, event: SetVocab) -> Vocab:
        """Create a vocabulary in which absent names keep their defaults."""
        named = {name: getattr(event, name) for name in cls.__struct_fields__ if name != "event"}
        return cls(event=event, **{name: text for name, text in named.items() if text is not None})

    @property
    def columns(self) -> tuple[str, str, str, str]:
        """Names of the columns: offset, operation type, system time, event time."""
        return (
            self.offset_column,
            self.operation_type_column,
            self.system_time_column,
            self.event_time_column,
        )


class ChainState(Struct, frozen=True, kw_only=True):
    """A chain as of its `head`. Sizes are in bytes; `num_records` counts rows of all slices.

    Links to objects are counted as the blocks report them, an object as often as it is linked.

    A new field must be added to `_content` and `_state` below as well.
    """

    dataset_id: DatasetId | None = None
    kind: DatasetKind | None = None

    head: Multihash | None = None
    sequence_number: int | None = None
    system_time: Instant | None = None

    vocab: Vocab = Vocab()
    schema: SetDataSchema | None = None
    has_odf_schema: bool = False
    polling_source: SetPollingSource | None = None
    push_sources: Mapping[str, AddPushSource] = MappingProxyType({})
    transform: SetTransform | None = None
    declared_inputs: tuple[DatasetId | None, ...] | None = None
    info: SetInfo | None = None
    license: SetLicense | None = None
    attachments: SetAttachments | None = None

    has_data_blocks: bool = False
    last_offset: int | None = None
    watermark: Instant | None = None
    last_add_data: AddData | None = None
    last_execution: ExecuteTransform | None = None

    num_blocks: int = 0
    blocks_size: int = 0
    num_objects: int = 0
    num_records: int = 0
    data_size: int = 0
    checkpoints_size: int = 0
    linked_objects: int = 0
    linked_size: int = 0

    not_understood: tuple[Multihash, ...] = ()
    clouded: frozenset[str] = frozenset()

    def after(self, block: HashedBlock) -> ChainState:
        """Return the state with this block as head, whether or not the block keeps the rules."""
        inner = block.block
        event = inner.event
        changes = CHANGES[type(event)](self, event)
        if isinstance(event, UnknownEvent):
            kept = (*self.not_understood, block.hash)[:NOT_UNDERSTOOD_KEPT]
            changes["not_understood"] = kept
        elif self.clouded and isinstance(event, _CLEARING):
            changes["clouded"] = self.clouded - {type(event).__name__}
        return replace(
            self,
            head=block.hash,
            sequence_number=inner.sequence_number,
            system_time=inner.system_time,
            num_blocks=self.num_blocks + 1,
            blocks_size=self.blocks_size + len(block.raw),
            **changes,
        )

    @property
    def data_schema(self) -> DataSchema | None:
        """The schema in ODF form; an old raw Arrow schema is converted on access.

        Raises:
            BadInput: the raw form cannot be read or has no ODF counterpart.
        """
        return None if self.schema is None else odf_schema(self.schema)

    @property
    def last_source_state(self) -> SourceState | None:
        """Source state of the last `AddData`; None if it has none, even if an older one had."""
        return self.last_add_data.new_source_state if self.last_add_data else None

    @property
    def last_checkpoint(self) -> Multihash | None:
        """Physical hash that the next data event must name as its previous checkpoint."""
        derivative = self.kind is DatasetKind.Derivative
        last = self.last_execution if derivative else self.last_add_data
        return last.new_checkpoint.physical_hash if last and last.new_checkpoint else None

    @property
    def next_offset(self) -> int:
        """First offset of the next slice."""
        return 0 if self.last_offset is None else self.last_offset + 1

    def require_understood(self) -> None:
        """Must be called before work is planned from this state.

        Raises:
            NotUnderstood: the chain contains events of a newer writer.
        """
        if self.not_understood:
            raise BadInput(
                "NotUnderstood",
                f"block {self.not_understood[0]} was written by a newer peer and is not "
                "understood here; upgrade this node before working on the dataset",
                blocks=[str(block) for block in self.not_understood],
            )


def _seeded(_state: ChainState, event: Seed) -> Changes:
    return {"dataset_id": event.dataset_id, "kind": event.dataset_kind}


def _data_added(state: ChainState, event: AddData) -> Changes:
    changes = {"last_add_data": event, **_data_block(state, event)}
    if event.extra is not None:
        so_far = LinkedObjects(state.linked_objects, state.linked_size)
        linked = so_far + linked_objects(event.extra)
        changes |= {"linked_objects": linked.count, "linked_size": linked.size}
    return changes


def _executed(state: ChainState, event: ExecuteTransform) -> Changes:
    inputs = tuple(item.dataset_id for item in event.query_inputs)
    return {
        "last_execution": event,
        "declared_inputs": inputs,
        **_data_block(state, event),
    }


def _data_block(state: ChainState, event: AddData | ExecuteTransform) -> Changes:
    changes: Changes = {
        "has_data_blocks": True,
        "last_offset": event.prev_offset,
        "watermark": event.new_watermark,
        "num_objects": state.num_objects + _objects(event),
    }
    if (data := event.new_data) is not None:
        interval = data.offset_interval
        changes["last_offset"] = interval.end
        changes["num_records"] = state.num_records + max(0, interval.count)
        changes["data_size"] = state.data_size + data.size
    if event.new_checkpoint is not None:
        changes["checkpoints_size"] = state.checkpoints_size + event.new_checkpoint.size
    return changes


def _objects(event: AddData | ExecuteTransform) -> int:
    return (event.new_data is not None) + (event.new_checkpoint is not None)


def _transform_set(_state: ChainState, event: SetTransform) -> Changes:
    inputs = tuple(item.dataset_ref.id for item in event.inputs)
    return {"transform": event, "declared_inputs": inputs}


def _schema_set(state: ChainState, event: SetDataSchema) -> Changes:
    return {
        "schema": event,
        "has_odf_schema": state.has_odf_schema or event.schema is not None,
    }


def _push_source_added(state: ChainState, event: AddPushSource) -> Changes:
    sources = {**state.push_sources, event.source_name: event}
    return {"push_sources": MappingProxyType(sources)}


def _push_source_disabled(state: ChainState, event: DisablePushSource) -> Changes:
    left = {k: v for k, v in state.push_sources.items() if k != event.source_name}
    return {"push_sources": MappingProxyType(left)}


def _not_understood(state: ChainState, event: UnknownEvent) -> Changes:
    return {"clouded": state.clouded | {event.name}} if event.name else {}


CHANGES: dict[type, Callable[[ChainState, Any], Changes]] = {
    Seed: _seeded,
    AddData: _data_added,
    ExecuteTransform: _executed,
    SetTransform: _transform_set,
    SetPollingSource: lambda _state, event: {"polling_source": event},
    DisablePollingSource: lambda _state, _event: {"polling_source": None},
    AddPushSource: _push_source_added,
    DisablePushSource: _push_source_disabled,
    SetDataSchema: _schema_set,
    SetVocab: lambda _state, event: {"vocab": Vocab.of(event)},
    SetInfo: lambda _state, event: {"info": event},
    SetLicense: lambda _state, event: {"license": event},
    SetAttachments: lambda _state, event: {"attachments": event},
    UnknownEvent: _not_understood,
}
"""Fields of the state that each event changes, apart from the head and the block count."""

_SAID = (SetAttachments, SetInfo, SetLicense, SetTransform, SetVocab)
"""Events that no rule refuses when they say what the chain says already."""

_CLEARING = (AddData, ExecuteTransform, SetDataSchema, SetTransform, SetPollingSource, SetVocab)
"""Events that replace everything their kind said before, so that the kind is not clouded then."""

EMPTY = ChainState()
"""The state before the first block."""


def says_nothing_new(state: ChainState, event: object) -> bool:
    """Return whether the event would only repeat what the chain says, as texts and terms can. An
    empty text says nothing where nothing was said."""
    if not isinstance(event, _SAID) or type(event).__name__ in state.clouded:
        return False
    is_empty = event == SetInfo() or (
        isinstance(event, SetAttachments) and not event.attachments.items
    )
    changed = CHANGES[type(event)](state, event).items()
    held = [(getattr(state, name), value) for name, value in changed]
    return all(old == new or (old is None and is_empty) for old, new in held)


FORM = 3
"""Must change whenever states change, or what events do to them."""
_EPOCH = Instant(0)
_EVENTS = (
    "schema",
    "polling_source",
    "transform",
    "info",
    "license",
    "attachments",
    "last_add_data",
    "last_execution",
)
_PLAIN = (
    "sequence_number",
    "has_odf_schema",
    "has_data_blocks",
    "last_offset",
    "num_blocks",
    "blocks_size",
    "num_objects",
    "num_records",
    "data_size",
    "checkpoints_size",
    "linked_objects",
    "linked_size",
)


def summarize(state: ChainState) -> bytes | None:
    """Return the state as bytes; None for the rare state that would not be read back equal."""
    try:
        content = msgspec.msgpack.encode(_content(state))
        return content if read_summary(content) == state else None
    except (BadInput, OverflowError):  # numbers of a hostile chain may need more than 64 bits
        return None


def read_summary(content: bytes) -> ChainState:
    """Return the state. Raises `UnreadableSummary`, and the errors of blocks."""
    try:
        found = msgspec.msgpack.decode(content)
        if found["form"] != FORM:
            raise BadInput("UnreadableSummary", "the summary has another form")
        return _state(found)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError):
        raise BadInput("UnreadableSummary", "the bytes are no summary of a chain") from None


def _content(state: ChainState) -> dict[str, Any]:
    inputs = state.declared_inputs
    return {
        "form": FORM,
        "plain": {name: getattr(state, name) for name in _PLAIN},
        "dataset": state.dataset_id and state.dataset_id.key,
        "kind": state.kind and state.kind.value,
        "head": state.head and state.head.raw,
        "system_time": state.system_time and str(state.system_time),
        "watermark": state.watermark and str(state.watermark),
        "vocab": [_event(state.vocab.event), *state.vocab.columns],
        "events": {name: _event(getattr(state, name)) for name in _EVENTS},
        "sources": [_event(source) for source in state.push_sources.values()],
        "inputs": None if inputs is None else [item and item.key for item in inputs],
        "not_understood": [block.raw for block in state.not_understood],
        "clouded": sorted(state.clouded),
    }


def _state(found: dict[str, Any]) -> ChainState:
    event, *columns = found["vocab"]
    names = structs.fields(Vocab)[: len(columns)]
    sources = [_read_event(raw) for raw in found["sources"]]
    inputs = found["inputs"]
    return ChainState(
        **{name: found["plain"][name] for name in _PLAIN},
        **{name: _read_event(found["events"][name]) for name in _EVENTS},
        dataset_id=_maybe(DatasetId, found["dataset"]),
        kind=_maybe(DatasetKind, found["kind"]),
        head=_maybe(Multihash.decode, found["head"]),
        system_time=_maybe(Instant.parse, found["system_time"]),
        watermark=_maybe(Instant.parse, found["watermark"]),
        vocab=Vocab(
            event=_read_event(event),
            **{field.name: text for field, text in zip(names, columns, strict=True)},
        ),
        push_sources=MappingProxyType({source.source_name: source for source in sources}),
        declared_inputs=None
        if inputs is None
        else tuple(_maybe(DatasetId, item) for item in inputs),
        not_understood=tuple(Multihash.decode(raw) for raw in found["not_understood"]),
        clouded=frozenset(found["clouded"]),
    )


def _event(event: Any) -> bytes | None:
    if event is None:
        return None
    block = MetadataBlock(system_time=_EPOCH, prev_block_hash=None, sequence_number=0, event=event)
    return encode_block(block).raw


def _read_event(raw: bytes | None) -> Any:
    return None if raw is None else decode_block(raw).event


def _maybe(make: Any, value: Any) -> Any:
    return None if value is None else make(value)
