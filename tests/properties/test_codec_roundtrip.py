"""Blocks of every shape: bytes and text give back what they were made of."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from strategies import blocks, snapshots, table
from wire_encoder import block_bytes

from odf_protocol.codec.blocks import decode_block, decode_message, encode_block, encode_message
from odf_protocol.codec.manifests import (
    from_data,
    load_block,
    load_documents,
    to_data,
    to_yaml,
)
from odf_protocol.metadata.events import DatasetSnapshot, MetadataBlock

many = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("version", [2, 3])
@many
@given(block=blocks)
def test_decoding_undoes_encoding(version, block):
    encoded = encode_block(block, version)
    decoded = decode_block(encoded.raw, expected=encoded.hash)
    assert decoded.block == block
    assert decoded.version == version


@pytest.mark.parametrize("version", [2, 3])
@many
@given(block=blocks)
def test_encoding_a_decoded_block_gives_the_same_bytes(version, block):
    raw = encode_block(block, version).raw
    assert encode_block(decode_block(raw).block, version).raw == raw


@pytest.mark.parametrize("version", [2, 3])
@settings(many, max_examples=60)
@given(block=blocks)
def test_a_second_writer_made_from_the_wire_model_gives_the_same_bytes(version, block):
    assert encode_block(block, version).raw == block_bytes(to_data(block), version)


@many
@given(block=blocks)
def test_a_block_survives_its_text_form_in_json_and_yaml(block):
    data = to_data(block)
    assert from_data(data, MetadataBlock) == block
    manifest = {"kind": "MetadataBlock", "version": 3, "content": data}
    assert load_block(to_yaml(manifest)) == (block, 3)
    assert load_block(json.dumps(manifest)) == (block, 3)


@many
@given(snapshot=snapshots)
def test_a_snapshot_survives_its_text_form(snapshot):
    data = to_data(snapshot)
    assert load_documents(to_yaml(data)) == [data]
    assert from_data(data, DatasetSnapshot) == snapshot


@many
@given(request=table("TransformRequest"))
def test_engine_requests_survive_their_bytes(request):
    raw = encode_message("TransformRequest", request)
    assert decode_message("TransformRequest", raw) == request
