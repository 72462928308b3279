"""Chains in general: what is authored folds, what is tampered with does not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from events import (
    COLUMNS,
    DERIVATIVE,
    INPUT,
    OTHER_INPUT,
    ROOT,
    TIME,
    checkpoint,
    consumed,
    data_slice,
    made_up,
    polling_source,
    push_source,
    source_state,
    transform,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from refusals import refusing
from strategies import blocks as any_blocks

from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.chain.rules import append, author, fold, report
from odf_protocol.chain.state import EMPTY
from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    HashedBlock,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetVocab,
)
from odf_protocol.metadata.events import AttachmentsEmbedded as Embedded
from odf_protocol.metadata.sources import ReadStepNdJson
from odf_protocol.multihash import HashMismatch

several = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Writer:
    """A second, plain idea of what may come next, to draw legal events from."""

    draw: Any
    last_offset: int | None = None
    watermark: Instant | None = None
    checkpoint: Any = None
    serial: int = 0
    consumed: dict[Any, tuple[Any, int | None]] = field(default_factory=dict)
    polling: bool = False
    push: set[str] = field(default_factory=set)

    def root(self, steps: int) -> list[Any]:
        kinds = (self._add_data, self._source, self._about)
        return [ROOT, COLUMNS, *(self.draw(st.sampled_from(kinds))() for _ in range(steps))]

    def derivative(self, steps: int) -> list[Any]:
        kinds = (self._execute, self._about)
        events = [self.draw(st.sampled_from(kinds))() for _ in range(steps)]
        return [DERIVATIVE, transform(INPUT, OTHER_INPUT), COLUMNS, *events]

    def _next(self) -> str:
        self.serial += 1
        return f"n{self.serial}"

    def _data(self) -> dict[str, Any]:
        """What both data events have in common; always with something new."""
        rows = self.draw(st.integers(0, 50))
        prev_offset, prev_checkpoint = self.last_offset, self.checkpoint
        if rows:
            start = 0 if prev_offset is None else prev_offset + 1
            self.last_offset = start + rows - 1
        if self.watermark is not None or not rows or self.draw(st.booleans()):
            step = self.draw(st.integers(0 if rows else 1, 10**12))
            self.watermark = Instant((self.watermark or TIME).ns + step)
        new = checkpoint(self._next()) if self.draw(st.booleans()) else None
        self.checkpoint = new.physical_hash if new else None
        return {
            "prev_offset": prev_offset,
            "prev_checkpoint": prev_checkpoint,
            "new_data": data_slice(start, self.last_offset) if rows else None,
            "new_checkpoint": new,
            "new_watermark": self.watermark,
        }

    def _add_data(self) -> AddData:
        state = self.draw(st.none() | st.sampled_from("ab").map(source_state))
        return AddData(**self._data(), new_source_state=state)

    def _execute(self) -> ExecuteTransform:
        inputs = []
        for dataset in (INPUT, OTHER_INPUT):
            block, offset = self.consumed.get(dataset, (None, None))
            new_block = made_up(self._next()) if self.draw(st.booleans()) else None
            new_offset = None
            if new_block is not None and self.draw(st.booleans()):
                new_offset = (-1 if offset is None else offset) + self.draw(st.integers(1, 9))
            inputs.append(
                consumed(
                    dataset,
                    prev_block_hash=block,
                    new_block_hash=new_block,
                    prev_offset=offset,
                    new_offset=new_offset,
                )
            )
            latest = offset if new_offset is None else new_offset
            self.consumed[dataset] = (new_block or block, latest)
        return ExecuteTransform(query_inputs=tuple(inputs), **self._data())

    def _source(self) -> Any:
        if self.polling and self.draw(st.booleans()):
            self.polling = False
            return DisablePollingSource()
        if self.push and self.draw(st.booleans()):
            return DisablePushSource(source_name=self.push.pop())
        if self.polling or (not self.push and self.draw(st.booleans())):
            self.polling = True
            return polling_source(f"https://example.org/{self._next()}")
        name = self.draw(st.sampled_from("abc"))
        self.push.add(name)
        return push_source(name, read=ReadStepNdJson(encoding=self._next()))

    def _about(self) -> Any:
        return self.draw(
            st.sampled_from(
                [
                    SetInfo(description="a", keywords=("b",)),
                    SetLicense(short_name="a", name="b", website_url="https://example.org"),
                    SetAttachments(attachments=Embedded(items=())),
                    SetVocab(offset_column="offset"),
                ]
            )
        )


@st.composite
def legal_events(draw):
    writer = Writer(draw)
    steps = draw(st.integers(0, 12))
    return writer.root(steps) if draw(st.booleans()) else writer.derivative(steps)


legal_chains = legal_events().map(lambda events: author(EMPTY, events, system_time=TIME)[0])
longer_chains = legal_chains.filter(lambda blocks: len(blocks) > 3)


@several
@given(legal_events(), st.integers(0, 20))
def test_what_is_authored_folds_also_in_pieces_and_from_bytes(events, cut):
    blocks, state = author(EMPTY, events, system_time=TIME)
    read = [decode_block(block.raw, expected=block.hash) for block in blocks]
    assert fold(read) == state
    assert fold(read[cut:], fold(read[:cut])) == state
    assert report(read) == []
    assert (state.head, state.num_blocks) == (blocks[-1].hash, len(events))


@several
@given(legal_events())
def test_the_state_is_the_sum_of_the_events(events):
    state = author(EMPTY, events, system_time=TIME)[1]
    data = [event for event in events if isinstance(event, AddData | ExecuteTransform)]
    slices = [event.new_data for event in data if event.new_data]
    rows = sum(one.offset_interval.end - one.offset_interval.start + 1 for one in slices)
    assert state.num_records == rows == state.next_offset
    assert state.data_size == sum(one.size for one in slices)
    assert state.watermark == (data[-1].new_watermark if data else None)
    last = data[-1].new_checkpoint if data else None
    assert state.last_checkpoint == (last.physical_hash if last else None)


FRAMES = {
    "another number": (lambda b: {"sequence_number": b.sequence_number + 1}, "SequenceIntegrity"),
    "an older time": (
        lambda b: {"system_time": Instant(b.system_time.ns - 1)},
        "SystemTimeIsNotMonotonic",
    ),
    "another previous block": (
        lambda b: {"prev_block_hash": made_up("elsewhere")},
        "PrevBlockNotFound",
    ),
}


@several
@pytest.mark.parametrize(("change", "error"), FRAMES.values(), ids=FRAMES)
@given(data=st.data(), blocks=longer_chains)
def test_a_changed_frame_breaks_the_chain_there(data, blocks, change, error):
    at = data.draw(st.integers(1, len(blocks) - 1))
    block = blocks[at].block
    changed = encode_block(replace(block, **change(block)))
    with refusing(error) as caught:
        fold([*blocks[:at], changed, *blocks[at + 1 :]])
    assert caught.value.block == changed.hash
    assert report([*blocks[:at], changed, *blocks[at + 1 :]])[0].block == changed.hash


@several
@given(data=st.data(), blocks=longer_chains)
def test_a_changed_event_breaks_the_chain_at_the_latest_in_the_next_block(data, blocks):
    at = data.draw(st.integers(0, len(blocks) - 2))
    changed = encode_block(replace(blocks[at].block, event=SetInfo(description="not mine")))
    with pytest.raises(ChainRuleBroken) as caught:
        fold([*blocks[:at], changed, *blocks[at + 1 :]])
    assert caught.value.sequence_number in (at, at + 1)


@several
@given(data=st.data(), blocks=longer_chains)
def test_a_block_that_is_missing_repeated_or_moved_breaks_the_chain(data, blocks):
    at = data.draw(st.integers(0, len(blocks) - 2))
    head, one, two, tail = blocks[:at], blocks[at], blocks[at + 1], blocks[at + 2 :]
    for wrong in ([*head, two, *tail], [*head, one, one, two, *tail], [*head, two, one, *tail]):
        with pytest.raises(ChainRuleBroken):
            fold(wrong)
        assert report(wrong)


@several
@given(data=st.data(), blocks=legal_chains)
def test_a_flipped_byte_is_noticed_by_the_hash(data, blocks):
    block = data.draw(st.sampled_from(blocks))
    at = data.draw(st.integers(0, len(block.raw) - 1))
    damaged = bytearray(block.raw)
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(HashMismatch):
        decode_block(bytes(damaged), expected=block.hash)


@settings(several, max_examples=300)
@given(legal_chains, st.lists(any_blocks, min_size=1, max_size=4))
def test_no_block_however_odd_makes_the_rules_stumble(blocks, odd):
    """Rules are total: they refuse by a typed error or take the block, in every state."""
    state = fold(blocks)
    strangers = [HashedBlock(made_up(str(n)), b"", block) for n, block in enumerate(odd)]
    for stranger in strangers:
        fitting = replace(
            stranger.block,
            prev_block_hash=state.head,
            sequence_number=(state.sequence_number or 0) + 1,
            system_time=max(TIME, stranger.block.system_time),
        )
        for block in (stranger, HashedBlock(stranger.hash, b"", fitting)):
            for before in (EMPTY, state):
                with suppress(ChainRuleBroken):
                    append(before, block)
        state = state.after(stranger)
    report([*blocks, *strangers])
    _ = state.last_checkpoint, state.last_source_state, state.next_offset
