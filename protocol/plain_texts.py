"""Texts as a plain Parquet page holds them, laid out as the logical hash is fed them.

A page has a length of 32 bits before each text, the hash takes 64: four zeros are missing behind
each length. Where the lengths stand follows from all those before; but no step by step is needed
where it can be guessed at once and then be proved: the first text stands at the start, each
begins where the one before it ends, and the last ends with the page. There is but one way to read
a page like that. What cannot be guessed is for a reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arrow_values import COUNT_BYTES, joined

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Places = npt.NDArray[np.int64]
    Marks = npt.NDArray[np.bool_]

_LENGTH_BYTES = 4
_BYTE_OF_WORD = np.uint64(0x0001020304050607)
"""Times a word in which only byte n is 1, and the rest is 0, has n as its highest byte."""


def framed_texts(raw: Any, count: int) -> Any | None:
    """So many texts with lengths of 64 bits; None: their lengths are not seen at once."""
    content = np.frombuffer(raw, np.uint8)
    if not count or len(content) < count * _LENGTH_BYTES:
        return None
    framed = _of_one_length(content, count)
    return _of_any_length(content, count) if framed is None else framed


def _of_one_length(content: Bytes, count: int) -> Any | None:
    """Codes, hashes and such: texts all of which are as long as the first."""
    length = int.from_bytes(content[:_LENGTH_BYTES].tobytes(), "little")
    if not length or (_LENGTH_BYTES + length) * count != len(content):
        return None
    texts = content.view([("length", "<u4"), ("text", f"V{length}")])
    if (texts["length"] != length).any():
        return None
    framed = np.empty(count, [("length", "<u8"), ("text", f"V{length}")])
    framed["length"] = length
    framed["text"] = texts["text"]
    return framed


def _of_any_length(content: Bytes, count: int) -> Any | None:
    """Texts of up to 255 bytes: their lengths end in three zeros, as nothing else does."""
    zeros = content[2:-1] | content[3:]
    zeros |= content[1:-2]
    marks = np.equal(zeros, 0, out=zeros.view(np.bool_))
    for find in (_one_a_word, np.flatnonzero):
        starts: Places = find(marks)
        if len(starts) == count and _follow_each_other(starts, content):
            places = np.empty(count + 2, np.int64)
            places[0], places[-1] = 0, len(content)
            np.add(starts, _LENGTH_BYTES, out=places[1:-1])
            return joined(places, content, bytes(COUNT_BYTES - _LENGTH_BYTES))
    return None


def _one_a_word(marks: Marks) -> Places:
    """Places of the marks, if no eight bytes have two: faster than where they may."""
    words = marks[: len(marks) // 8 * 8].view(np.uint64)
    places = np.flatnonzero(words != 0)
    byte = words[places]
    byte *= _BYTE_OF_WORD
    byte >>= 56
    places *= 8
    places += byte.view(np.int64)
    rest = np.flatnonzero(marks[words.nbytes :])
    return np.concatenate((places, rest + words.nbytes)) if len(rest) else places


def _follow_each_other(starts: Places, content: Bytes) -> bool:
    ends = content[starts].astype(np.int64)
    ends += starts
    ends += _LENGTH_BYTES
    whole = starts[0] == 0 and ends[-1] == len(content)
    return bool(whole and (ends[:-1] == starts[1:]).all())
