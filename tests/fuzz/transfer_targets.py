"""Fuzz targets of the transfer protocol: any bytes are read, or refused in our own words."""

from __future__ import annotations

import contextlib
import zlib

from odf_protocol.errors import NodeError
from odf_protocol.transfer.bundle import GZIP, TAR_BLOCK, BundleLimits, unpack
from odf_protocol.transfer.messages import (
    BATCH_ENCODING,
    BATCH_MEDIA_TYPE,
    MetadataBlocksBatch,
    decode,
    encode,
)
from odf_protocol.transfer.phases import SPEAKER, decode_payload, encode_payload

LIMITS = BundleLimits(max_inflated=1 << 22, max_blocks=1000)
KINDS = tuple(SPEAKER)
COMPRESS, MEND, COUNT = 1, 2, 4
"""Meaning of the first byte of a bundle: the rest is a bare tar, with wrong checksums even;
and how many blocks are announced, in units of `COUNT`."""


def fuzz_bundle(data: bytes) -> None:
    """First byte as above, then gzip or tar. Mending lets changes behind a checksum count."""
    if not data:
        return
    head, rest = data[0], data[1:]
    if head & MEND:
        rest = _mended(rest)
    if head & (COMPRESS | MEND):
        deflate = zlib.compressobj(1, wbits=GZIP)
        rest = deflate.compress(rest) + deflate.flush()
    batch = MetadataBlocksBatch(
        num_blocks=head // COUNT,
        media_type=BATCH_MEDIA_TYPE,
        encoding=BATCH_ENCODING,
        payload=encode_payload(rest),
    )
    with contextlib.suppress(NodeError):
        unpack(batch, limits=LIMITS)


def _mended(tar: bytes) -> bytes:
    """The tar with a right checksum in everything that looks like a header."""
    out = bytearray()
    for at in range(0, len(tar), TAR_BLOCK):
        header = bytearray(tar[at : at + TAR_BLOCK])
        if len(header) == TAR_BLOCK and header[257:262] == b"ustar":
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
        out += header
    return bytes(out)


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
