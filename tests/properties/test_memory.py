"""No input takes more memory than a stated multiple of its own size."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known import vectors

from odf_protocol.codec import encode
from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import (
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
    SetDataSchema,
    SetInfo,
)
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeBool
from odf_protocol.transfer.bundle import GZIP, BundleLimits, pack, unpack
from odf_protocol.transfer.messages import MetadataBlocksBatch
from odf_protocol.transfer.phases import decode_payload, encode_payload

BLOCK_FACTOR = 50
"""Bytes of memory per byte of a block, at the worst moment of reading it."""
BUNDLE_FACTOR = 16
"""Bytes of memory per byte of payload or of the tar in it, while blocks are read one by one."""
CONSTANT = 1 << 18
"""Memory that any input may take, however small."""

BLOCKS = [bytes.fromhex(vector["bytes"]) for vector in vectors("blocks")]


def peak_of(read: Callable[[], object]) -> int:
    """Bytes allocated at the worst moment. The first time fills caches and does not count."""
    with suppress(NodeError):
        read()
    tracemalloc.start()
    with suppress(NodeError):
        read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def block_of(event: MetadataEvent) -> HashedBlock:
    return encode_block(MetadataBlock(system_time=Instant(0), sequence_number=0, event=event))


def schema_of(count: int, extra: str | None = None) -> HashedBlock:
    attributes = None if extra is None else Attributes(extra)
    field = DataField(name="a", type=DataTypeBool(), extra=attributes)
    return block_of(SetDataSchema(schema=DataSchema(fields=(field,) * count)))


def listing(item: str, count: int = 20_000) -> str:
    return json.dumps({"a": 0}).replace("0", "[" + ",".join([item] * count) + "]")


GREEDY: dict[str, Callable[[], HashedBlock]] = {
    "short texts": lambda: block_of(SetInfo(keywords=("\u0416",) * 20_000)),
    "many fields": lambda: schema_of(5_000),
    "maps in attributes": lambda: schema_of(1, listing('{"":{}}')),
    "lists in attributes": lambda: schema_of(1, listing("[]")),
    "many small attributes": lambda: schema_of(2_000, "{}"),
}


@pytest.mark.parametrize("greed", GREEDY)
def test_a_block_made_to_take_memory_takes_little(greed: str) -> None:
    raw = GREEDY[greed]().raw
    assert peak_of(lambda: decode_block(raw)) < BLOCK_FACTOR * len(raw) + CONSTANT


@pytest.mark.parametrize("times", [3, 4, 5, 1000])
def test_parts_that_are_shared_take_no_more(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(writer: Any, name: str, field: Any, value: Any) -> int:
        return int(writer.builder.offsets([writer.subtable(name, field, value[0])] * len(value)))

    monkeypatch.setitem(encode._CREATE, "[table]", shared)
    raw = schema_of(times, listing('{"":{}}')).raw
    assert peak_of(lambda: decode_block(raw)) < BLOCK_FACTOR * len(raw) + CONSTANT


edits = st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 255)), max_size=6)


@settings(deadline=None)
@given(st.sampled_from(BLOCKS), edits)
def test_a_damaged_block_takes_little(raw: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(raw)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    whole = bytes(damaged)
    assert peak_of(lambda: decode_block(whole)) < BLOCK_FACTOR * len(raw) + CONSTANT


def inflated_size(batch: MetadataBlocksBatch) -> int:
    return len(zlib.decompress(b"".join(decode_payload(batch.payload)), GZIP))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(BLOCKS), unique=True), st.integers(0, 600))
def test_a_bundle_takes_little_whether_whole_or_cut(raws: list[bytes], cut: int) -> None:
    batch = pack([decode_block(raw) for raw in raws])
    size = max(inflated_size(batch), len(bytes(batch.payload)))
    payload = b"".join(decode_payload(batch.payload))[: -cut or None]
    broken = MetadataBlocksBatch(
        num_blocks=len(raws),
        media_type=batch.media_type,
        encoding=batch.encoding,
        payload=encode_payload(payload),
    )
    assert peak_of(lambda: unpack(broken)) < BUNDLE_FACTOR * size + CONSTANT


@pytest.mark.parametrize("greed", GREEDY)
def test_a_bundle_of_greedy_blocks_takes_what_its_blocks_take(greed: str) -> None:
    block = GREEDY[greed]()
    batch = pack([block])
    bound = BLOCK_FACTOR * inflated_size(batch) + CONSTANT
    assert peak_of(lambda: unpack(batch)) < bound


def test_a_bomb_takes_no_more_than_the_limits_say() -> None:
    deflate = zlib.compressobj(9, wbits=GZIP)
    bomb = deflate.compress(bytes(64 << 20)) + deflate.flush()
    limits = BundleLimits(max_inflated=8 << 20)
    batch = MetadataBlocksBatch(
        num_blocks=1,
        media_type="application/tar+gzip",
        encoding="raw",
        payload=encode_payload(bomb),
    )
    assert peak_of(lambda: unpack(batch, limits=limits)) < 3 * limits.max_inflated + CONSTANT
