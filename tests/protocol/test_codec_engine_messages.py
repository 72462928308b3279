"""Engine messages, by known answers."""

from __future__ import annotations

import pytest
from known import name_of, vectors

from odf_protocol.codec.blocks import MalformedMessage, decode_message, encode_message
from odf_protocol.codec.encode import encode_root
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetVocabulary,
    RawQueryRequest,
    RawQueryResponse,
    TransformRequest,
    TransformResponse,
    TransformSql,
)

TYPES = {
    "RawQueryRequest": RawQueryRequest,
    "RawQueryResponse": RawQueryResponse,
    "TransformRequest": TransformRequest,
    "TransformResponse": TransformResponse,
}


@pytest.mark.parametrize("vector", vectors("engine-messages"), ids=name_of)
def test_a_message_has_the_known_bytes_and_reads_back(vector):
    name, raw = vector["message"], bytes.fromhex(vector["bytes"])
    value = from_data(vector["value"], TYPES[name])
    assert encode_message(name, value) == raw
    assert decode_message(name, raw) == value
    assert to_data(value) == vector["value"]


def test_timestamps_of_older_writers_are_read_too():
    request = TransformRequest(
        dataset_id=DatasetId(b"k" * 32),
        dataset_alias=DatasetAlias.parse("out"),
        system_time=Instant.parse("2024-01-01T00:00:00Z"),
        vocab=DatasetVocabulary(),
        transform=TransformSql(engine="x"),
        query_inputs=(),
        next_offset=3,
        new_checkpoint_path="c",
        new_data_path="d",
    )
    older = encode_root("TransformRequest", request, timestamp_alignment=1)
    assert decode_message("TransformRequest", older) == request


@pytest.mark.parametrize("raw", [b"", b"\0" * 64, b"\xff" * 64, b"\4\0\0\0\4\0\4\0\4\0\0\0"])
@pytest.mark.parametrize("name", sorted(TYPES))
def test_bytes_that_are_no_message_are_refused(name, raw):
    with pytest.raises(MalformedMessage, match=name):
        decode_message(name, raw)
