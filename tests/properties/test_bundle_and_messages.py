"""Any bytes are a bundle or a message, or are refused in our own words."""

from __future__ import annotations

import io
import json
import tarfile

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.transfer_targets import COMPRESS, COUNT, MEND, fuzz_bundle, fuzz_message

from odf_protocol.codec.blocks import encode_block
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import HashedBlock, MetadataBlock, SetInfo
from odf_protocol.transfer.bundle import pack, unpack
from odf_protocol.transfer.phases import decode_payload, encode_payload


def _block(number: int, text: str) -> HashedBlock:
    event = SetInfo(description=text)
    now = Instant.from_millis(number)
    return encode_block(MetadataBlock(system_time=now, sequence_number=number, event=event))


BLOCKS = st.lists(st.tuples(st.integers(0, 2**40), st.text()), max_size=5, unique=True).map(
    lambda rows: [_block(number, text) for number, text in rows]
)


@settings(deadline=None)
@given(BLOCKS)
def test_packed_blocks_come_back(blocks: list[HashedBlock]) -> None:
    assert unpack(pack(blocks)) == blocks


@given(st.binary())
def test_payloads_come_back(content: bytes) -> None:
    assert b"".join(decode_payload(encode_payload(content))) == content


@settings(deadline=None)
@given(st.binary(max_size=2000))
def test_arbitrary_bytes_are_no_danger_as_bundle(data: bytes) -> None:
    fuzz_bundle(data)


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number in range(3):
            block = _block(number, "x")
            info = tarfile.TarInfo(str(block.hash))
            info.size, info.mtime = len(block.raw), 1.5
            tar.addfile(info, io.BytesIO(block.raw))
    return out.getvalue()


TAR = _tar()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(TAR) - 1), st.integers(0, 255)), max_size=6), st.data()
)
def test_damaged_archives_are_no_danger(
    changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    tar = bytearray(TAR)
    for at, byte in changes:
        tar[at] = byte
    end = data.draw(st.integers(0, len(tar)) | st.just(len(tar)))
    fuzz_bundle(bytes([3 * COUNT | COMPRESS]) + tar[:end])
    fuzz_bundle(bytes([3 * COUNT | COMPRESS | MEND]) + tar[:end])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
WIRE_NAMES = st.sampled_from(
    ["Ok", "Err", "Internal", "phase", "Push", "details", "Running", "blocks", "new_blocks"]
)
WIRE = st.recursive(JSON, lambda inner: st.dictionaries(WIRE_NAMES, inner, max_size=3))


@settings(deadline=None)
@given(st.integers(0, 255), st.binary() | WIRE.map(lambda v: json.dumps(v).encode()))
def test_arbitrary_texts_are_no_danger_as_messages(kind: int, text: bytes) -> None:
    fuzz_message(bytes([kind]) + text)
