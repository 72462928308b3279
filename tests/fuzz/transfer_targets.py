"""Fuzz targets of the transfer protocol: any bytes are read, or refused in our own words."""

from __future__ import annotations

import contextlib
import zlib

from protocol.errors import NodeError
from protocol.transfer.bundle import GZIP, BundleLimits, unpack
from protocol.transfer.messages import (
    BATCH_ENCODING,
    BATCH_MEDIA_TYPE,
    MetadataBlocksBatch,
    decode,
    encode,
)
from protocol.transfer.payload import decode_payload, encode_payload
from protocol.transfer.phases import SPEAKER

LIMITS = BundleLimits(max_inflated=1 << 22, max_blocks=1000)
KINDS = tuple(SPEAKER)


def fuzz_bundle(data: bytes) -> None:
    """First byte: blocks announced, and whether the rest still has to be compressed."""
    if not data:
        return
    rest = data[1:]
    if data[0] & 1:
        deflate = zlib.compressobj(1, wbits=GZIP)
        rest = deflate.compress(rest) + deflate.flush()
    batch = MetadataBlocksBatch(
        num_blocks=data[0] >> 1,
        media_type=BATCH_MEDIA_TYPE,
        encoding=BATCH_ENCODING,
        payload=encode_payload(rest),
    )
    with contextlib.suppress(NodeError):
        unpack(batch, limits=LIMITS)


def fuzz_message(data: bytes) -> None:
    """First byte: kind of message. What is read is written, and then reads the same."""
    if not data:
        return
    kind = KINDS[data[0] % len(KINDS)]
    with contextlib.suppress(NodeError):
        message = decode(data[1:], kind)
        text = encode(message)
        if encode(decode(text, kind)) != text:
            raise AssertionError("a message changed on its way")
        for part in ("blocks", "new_blocks"):
            if batch := getattr(message, part, None):
                b"".join(decode_payload(batch.payload))
