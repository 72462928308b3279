"""A chain state as bytes, so that it need not be folded again. Only the same program reads it.

Events are stored as blocks in the encoding of chains, which can represent every event in a
state. A summary has a form number; one with another number cannot be read.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from ..codec.blocks import decode_block, encode_block
from ..errors import BadInput
from ..identity import DatasetId
from ..instant import Instant
from ..metadata.block import MetadataBlock
from ..metadata.events import DatasetKind
from ..multihash import Multihash
from .state import ChainState, Vocab

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


class UnreadableSummary(BadInput):
    """The bytes are not a summary of this form."""


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
            raise UnreadableSummary("the summary has another form")
        return _state(found)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError):
        raise UnreadableSummary("the bytes are no summary of a chain") from None


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
