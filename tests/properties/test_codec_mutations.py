"""Damaged blocks and documents: refused or read, never anything else."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known import vectors
from tests.fuzz.targets import (
    fuzz_block,
    fuzz_engine_message,
    fuzz_manifest,
    fuzz_multihash,
    fuzz_reference,
)

from odf_protocol.codec.blocks import MANIFEST_FIELDS, METADATA_BLOCK_CODE, Manifest, decode_block
from odf_protocol.codec.encode import encode_root
from odf_protocol.codec.manifests import to_yaml
from odf_protocol.errors import NodeError

BLOCKS = [bytes.fromhex(v["bytes"]) for v in vectors("blocks")]
CONTENTS = [encode_root("MetadataBlock", decode_block(raw).block) for raw in BLOCKS]
MESSAGES = [bytes.fromhex(v["bytes"]) for v in vectors("engine-messages")]
MANIFESTS = [v["manifest"] for v in vectors("blocks")]
TEXTS = [to_yaml(m).encode() for m in MANIFESTS] + [json.dumps(m).encode() for m in MANIFESTS]
REFERENCES = [v["text"].encode() for v in vectors("refs-grammar", "ref")]
HASHES = [v["text"].encode() for v in vectors("hashes", "multihash-text", "multihash-invalid")]

many = settings(max_examples=300, deadline=2000)

edits = st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 255)), max_size=6)
ENDS = [b"", b"\0", b"\xff" * 8, b" *a", b"\n- &a [*a]", b"%"]


@st.composite
def damaged(draw, originals):
    """One of the originals with some bytes changed, cut short or continued."""
    raw = bytearray(draw(st.sampled_from(originals)))
    for at, value in draw(edits):
        if raw:
            raw[at % len(raw)] = value
    cut = draw(st.none() | st.integers(0, len(raw)))
    return bytes(raw[:cut]) + draw(st.sampled_from(ENDS))


@many
@given(raw=damaged(BLOCKS))
def test_a_damaged_block_is_refused_or_read(raw):
    fuzz_block(raw)


@many
@given(content=damaged(CONTENTS))
def test_a_damaged_content_in_a_sound_manifest_is_refused_or_read(content):
    manifest = Manifest(kind=METADATA_BLOCK_CODE, version=3, content=content)
    fuzz_block(encode_root("Manifest", manifest, fields=MANIFEST_FIELDS))


@many
@given(raw=damaged(MESSAGES) | st.binary(max_size=200))
def test_a_damaged_message_is_refused_or_read(raw):
    fuzz_engine_message(raw)


@many
@given(raw=damaged(TEXTS))
def test_a_damaged_document_is_refused_or_read(raw):
    fuzz_manifest(raw)


@many
@given(raw=damaged(HASHES) | st.binary(max_size=60))
def test_a_damaged_hash_is_refused_or_read(raw):
    fuzz_multihash(raw)


@many
@given(raw=damaged(REFERENCES) | st.binary(max_size=60))
def test_a_damaged_reference_is_refused_or_read(raw):
    fuzz_reference(raw)


@pytest.mark.parametrize("at", range(0, 160, 4))
def test_an_offset_to_anywhere_is_refused_or_read(at):
    for raw in BLOCKS[::7]:
        for value in (0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
            fuzz_block(raw[:at] + value.to_bytes(4, "little") + raw[at + 4 :])


@given(raw=damaged(BLOCKS))
@settings(max_examples=50, deadline=None)
def test_memory_stays_in_proportion_to_the_bytes(raw):
    tracemalloc.start()
    with suppress(NodeError):
        decode_block(raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * len(raw) + 100_000
