"""Entry points for a fuzzer: each takes anything and may only answer with a `NodeError`."""

from __future__ import annotations

from odf_protocol.codec.blocks import decode_block, decode_message, encode_block
from odf_protocol.codec.manifests import (
    block_manifest,
    from_data,
    load_block,
    load_documents,
    load_event,
    load_snapshots,
    to_data,
    to_yaml,
)
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.metadata.events import MetadataBlock, UnknownEvent
from odf_protocol.multihash import Multihash
from odf_protocol.references import DatasetNamePattern, DatasetRefAny, DatasetRefRemote

REFERENCES = (
    DatasetId.parse,
    DatasetAlias.parse,
    DatasetRef.parse,
    DatasetRefRemote.parse,
    DatasetRefAny.parse,
    DatasetNamePattern.parse,
)
MESSAGES = ("RawQueryRequest", "RawQueryResponse", "TransformRequest", "TransformResponse")


def fuzz_block(data: bytes) -> None:
    """Whatever decodes can be shown, and means the same when written anew."""
    try:
        block = decode_block(data)
    except NodeError:
        return
    shown = block_manifest(block)
    assert load_documents(to_yaml(shown)) == [shown]
    if not isinstance(block.event, UnknownEvent):
        assert decode_block(encode_block(block.block, block.version).raw).block == block.block


def fuzz_engine_message(data: bytes) -> None:
    """Every kind of engine message."""
    for name in MESSAGES:
        try:
            decode_message(name, data)  # type: ignore[arg-type]
        except NodeError:
            continue


def fuzz_manifest(data: bytes) -> None:
    """Whatever loads can be written, and loads again to the same."""
    for load in (load_snapshots, load_event, load_documents):
        try:
            load(data)
        except NodeError:
            continue
    try:
        block, version = load_block(data)
        encode_block(block, version)
    except NodeError:
        return
    assert from_data(to_data(block), MetadataBlock) == block


def fuzz_multihash(data: bytes) -> None:
    """Binary and text form."""
    for read in (Multihash.decode, lambda raw: Multihash.parse(raw.decode("utf-8", "replace"))):
        try:
            found = read(data)
        except NodeError:
            continue
        assert Multihash.parse(str(found)) == found


def fuzz_reference(data: bytes) -> None:
    """Every form a dataset may be named by; what parses is written and parses to the same."""
    text = data.decode("utf-8", "replace")
    for parse in REFERENCES:
        try:
            found = parse(text)
        except NodeError:
            continue
        assert parse(str(found)) == found
