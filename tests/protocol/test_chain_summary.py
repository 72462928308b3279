"""Summaries of chain states: they come back the same, or are not made."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from chain_maker import NOON, chain, some_id
from refusals import refusing

from odf_protocol.chain import state as summary
from odf_protocol.chain.rules import author
from odf_protocol.chain.snapshot import prepare
from odf_protocol.chain.state import EMPTY, ChainState, read_summary, summarize
from odf_protocol.codec.manifests import load_snapshots
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    Checkpoint,
    DataSlice,
    OffsetInterval,
    SetInfo,
    SetVocab,
    SourceState,
)
from odf_protocol.multihash import ARROW0_SHA3_256, Multihash

EXAMPLES = Path(__file__).parents[2] / "examples"
HASH = Multihash.of(b"x")


def _added(state):
    return AddData(
        prev_offset=state.last_offset,
        new_data=DataSlice(
            logical_hash=Multihash(ARROW0_SHA3_256, HASH.digest),
            physical_hash=HASH,
            offset_interval=OffsetInterval(start=0, end=9),
            size=100,
        ),
        new_checkpoint=Checkpoint(physical_hash=HASH, size=7),
        new_watermark=Instant.parse("1969-12-31T23:59:59.123456789Z"),
        new_source_state=SourceState(source_name="s", kind="odf/etag", value="v"),
    )


def test_a_state_without_a_block_comes_back():
    assert read_summary(summarize(EMPTY)) == EMPTY


def test_states_of_the_examples_come_back():
    states = []
    texts = {path: path.read_text() for path in sorted(EXAMPLES.rglob("*.yaml"))}
    for path in (path for path, text in texts.items() if "kind: DatasetSnapshot" in text):
        for snapshot in load_snapshots(path.read_bytes()):
            events = prepare(
                snapshot, dataset_id=some_id(path.name), resolve=lambda ref: some_id(str(ref))
            )
            states.append(author(EMPTY, events, system_time=NOON)[1])
    assert states
    for state in states:
        assert read_summary(summarize(state)) == state


def test_a_state_with_data_and_names_of_its_own_comes_back():
    vocab = SetVocab(offset_column="o", event_time_column="when")
    _, state = chain(some_id(), [vocab, SetInfo(description="x", keywords=("a",))])
    state = msgspec.structs.replace(
        state,
        last_add_data=_added(state),
        clouded=frozenset({"SetInfo"}),
        not_understood=(HASH,),
        declared_inputs=(some_id("in"), None),
        watermark=Instant(-5),
        last_offset=9,
    )
    assert read_summary(summarize(state)) == state


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"])
def test_a_state_of_any_time_comes_back(when):
    _, state = chain(some_id(), [SetInfo(description="x")])
    time = Instant.parse(when)
    state = msgspec.structs.replace(state, system_time=time, watermark=time)
    assert read_summary(summarize(state)) == state


def test_a_state_with_numbers_beyond_sixty_four_bits_has_no_summary():
    _, state = chain(some_id(), [SetInfo(description="x")])
    assert summarize(msgspec.structs.replace(state, num_records=2**64)) is None


def test_every_part_of_a_state_is_in_its_summary():
    said = {*summary._PLAIN, *summary._EVENTS, "dataset_id", "kind", "head", "system_time",
            "watermark", "vocab", "push_sources", "declared_inputs", "not_understood",
            "clouded"}  # fmt: skip
    assert said == set(ChainState.__struct_fields__)


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", b"\x90", msgspec.msgpack.encode({"form": 0}), json.dumps({}).encode()]
)
def test_bytes_that_are_no_summary_are_refused(content):
    with refusing("UnreadableSummary"):
        read_summary(content)
