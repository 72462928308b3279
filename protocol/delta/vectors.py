"""Deletion vectors inside of a log: which rows of a file are not there, as text.

Source: Delta protocol, "Deletion Vector Format", "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import struct

import numpy as np

_MAGIC = 1681511377
_ALPHABET = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    np.uint8,
)
_PLACES = np.array([85**4, 85**3, 85**2, 85, 1], np.uint32)


def inline_vector(bitmap: bytes, cardinality: int) -> dict[str, object]:
    """The descriptor of a vector that stands in the log itself; `bitmap` as `roaring.portable`."""
    raw = struct.pack("<I", _MAGIC) + bitmap
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(raw),
        "sizeInBytes": len(raw),
        "cardinality": cardinality,
    }


def z85(raw: bytes) -> str:
    """Z85 of bytes that are padded with zeros to a multiple of four. Source: ZeroMQ RFC 32."""
    padded = raw + bytes(-len(raw) % 4)
    numbers = np.frombuffer(padded, ">u4").astype(np.uint32)
    digits = numbers[:, None] // _PLACES % 85
    text: bytes = _ALPHABET[digits].tobytes()
    return text.decode()
