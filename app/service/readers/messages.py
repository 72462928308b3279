"""What service and reader say to each other: frames of a kind and a length. Pure.

A file descriptor goes beside the frame that announces it (`FILE`), which is why a `FILE` has no
content; all else is JSON, but for the bytes of the answer.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import msgspec

from odf_node.protocol.errors import NodeError
from odf_node.protocol.multihash import Multihash
from odf_node.protocol.typed import decode_json
from odf_node.storage.datasets.pruning.learned import Bounds, Learned
from odf_node.storage.stores.ports.values import Failed, ObjectKind

HEAD = struct.Struct("!BI")
MAX_FRAME_BYTES = 256 * 1024 * 1024
"""A plan names every slice of a dataset, in some 200 bytes each."""
PIECE_BYTES = 256 * 1024
"""Bytes of an answer that travel in one frame."""


class Kind(IntEnum):
    """What a frame is; `TASK`, `FILE` and `ABSENT` are said by the service."""

    TASK = 1
    FILE = 2
    NEED = 3
    REQUIRE = 4
    SIZE = 5
    PIECE = 6
    FAILED = 7
    END = 8
    SLICES = 9
    LEARNED = 10
    ABSENT = 11


INDEX_FILE = "index"
"""Kind of a need that names a file of the node's own index by its key."""


class Need(msgspec.Struct, frozen=True, array_like=True):
    """An object that the reader is to be given, or that has to be there with its size."""

    kind: str
    hash: str
    size: int = 0

    @property
    def place(self) -> tuple[ObjectKind, Multihash]:
        return ObjectKind(self.kind), Multihash.parse(self.hash)


class Opened(msgspec.Struct, frozen=True, array_like=True):
    """Slices that an answer opens, of how many; said before its first byte."""

    scanned: int
    total: int


class ReaderBrokeProtocol(NodeError):
    """A reader says what no reader says."""


def frame(kind: Kind, content: bytes | memoryview = b"") -> bytes:
    return HEAD.pack(kind, len(content)) + content


def head_of(raw: bytes) -> tuple[Kind, int]:
    """Kind and length of the frame that begins so. Raises `ReaderBrokeProtocol`."""
    number, length = HEAD.unpack(raw)
    try:
        kind = Kind(number)
    except ValueError:
        raise ReaderBrokeProtocol(f"there is no frame of kind {number}") from None
    if length > MAX_FRAME_BYTES:
        raise ReaderBrokeProtocol(f"a frame of {length} bytes is too long")
    return kind, length


def needs(wanted: list[Need]) -> bytes:
    return msgspec.json.encode(wanted)


def read_needs(raw: bytes) -> list[Need]:
    return decode_json(raw, list[Need])


def slices_frame(opened: Opened) -> bytes:
    return frame(Kind.SLICES, msgspec.json.encode(opened))


def read_slices(raw: bytes) -> Opened:
    return decode_json(raw, Opened)


def learned_frame(learned: list[Learned]) -> bytes:
    """What was found out about slices on the way."""
    return frame(Kind.LEARNED, msgspec.json.encode(learned))


def read_learned(raw: bytes) -> list[Learned]:
    return decode_json(raw, list[tuple[str, str, Bounds]])


def failed_frame(failed: Failed) -> bytes:
    told = [failed.error, failed.message, failed.facts, failed.branch]
    return frame(Kind.FAILED, msgspec.json.encode(told, enc_hook=str))


def read_failed(raw: bytes) -> Failed:
    error, message, facts, branch = decode_json(raw, tuple[str, str, dict[str, Any], str])
    return Failed(error, message, facts, branch)
