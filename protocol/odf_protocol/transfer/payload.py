"""Bytes inside of JSON: as an array of numbers, the protocol's form, or as base64.

Four megabytes of archive become fourteen of numbers. So both directions avoid a Python step per
byte and work piece by piece, without the numbers or the text of a whole batch in memory.
Base64 is for peers that agreed on it (`PAYLOAD_HEADER`).
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw

from ..typed import json_decoder
from .messages import BATCH_ENCODING, COMPACT_ENCODING, MalformedMessage

PIECE_CHARS = 1 << 18
"""Number of characters that are parsed at a time; a multiple of four."""
PIECE_BYTES = 3 << 18
"""Number of bytes that are written at a time; a multiple of three."""

_FOUR_CHARS = b"".join(f"{byte},".encode().ljust(4, b"\0") for byte in range(256))
"""The text of each byte value with a comma, padded with zeros to four bytes."""
_decoder = json_decoder(list[int])
_BLANK = b" \t\r\n"


def encode_payload(content: bytes, encoding: str = BATCH_ENCODING) -> Raw:
    """Return `[31,139,8,…]`, or `"H4sI…"` in base64."""
    return Raw(b"".join(payload_pieces(content, encoding)))


def payload_pieces(content: bytes, encoding: str = BATCH_ENCODING) -> Iterator[bytes]:
    """Yield the text of `encode_payload` in pieces of a few megabytes at most."""
    opening, write, closing = _WRITERS[encoding]
    yield opening
    for at in range(0, len(content), PIECE_BYTES):
        last = at + PIECE_BYTES >= len(content)
        yield write(content[at : at + PIECE_BYTES], last)
    yield closing


def decode_payload(payload: Raw, encoding: str = BATCH_ENCODING) -> Iterator[bytes]:
    """Yield the bytes of such a text, in pieces.

    Raises:
        MalformedMessage: while iterating, for any other text.
    """
    text = memoryview(payload)
    start, end = 0, len(text)
    while start < end and text[start] in _BLANK:
        start += 1
    while end > start and text[end - 1] in _BLANK:
        end -= 1
    yield from _READERS[encoding](text[start:end])


def _as_numbers(content: bytes, last: bool) -> bytes:
    import numpy as np  # not needed to start a service

    padded = np.frombuffer(_FOUR_CHARS, "<u4")[np.frombuffer(content, np.uint8)].tobytes()
    text = padded.translate(None, b"\0")
    return text[:-1] if last else text


def _as_base64(content: bytes, _last: bool) -> bytes:
    return binascii.b2a_base64(content, newline=False)


_WRITERS: dict[str, tuple[bytes, Callable[[bytes, bool], bytes], bytes]] = {
    BATCH_ENCODING: (b"[", _as_numbers, b"]"),
    COMPACT_ENCODING: (b'"', _as_base64, b'"'),
}


def _read_numbers(text: memoryview) -> Iterator[bytes]:
    if len(text) < 2 or (text[0], text[-1]) != tuple(b"[]"):
        raise MalformedMessage("the payload is no array")
    at, end = 1, len(text) - 1
    while at < end:
        stop = min(at + PIECE_CHARS, end)
        piece = bytes(text[at:stop])
        if stop < end:
            stop = at + piece.rfind(b",")
            if stop < at:
                raise MalformedMessage("the payload is no array of numbers from 0 to 255")
        yield _numbers(piece[: stop - at], only=at == 1 and stop == end)
        if stop == end - 1:
            raise MalformedMessage("the payload ends in a comma")
        at = stop + 1


def _numbers(text: bytes, *, only: bool) -> bytes:
    try:
        numbers = _decoder.decode(b"[" + text + b"]")
        if not numbers and not only:
            raise ValueError("a comma too many")
        return bytes(numbers)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise MalformedMessage("the payload is no array of numbers from 0 to 255") from None


def _read_base64(text: memoryview) -> Iterator[bytes]:
    if len(text) < 2 or (text[0], text[-1]) != tuple(b'""'):
        raise MalformedMessage("the payload is no text")
    inner = text[1:-1]
    for at in range(0, len(inner), PIECE_CHARS):
        piece = bytes(inner[at : at + PIECE_CHARS])
        if b"=" in piece and at + PIECE_CHARS < len(inner):
            raise MalformedMessage("the payload is no base64")
        try:
            yield binascii.a2b_base64(piece, strict_mode=True)
        except binascii.Error:
            raise MalformedMessage("the payload is no base64") from None


_READERS: dict[str, Callable[[memoryview], Iterator[bytes]]] = {
    BATCH_ENCODING: _read_numbers,
    COMPACT_ENCODING: _read_base64,
}
