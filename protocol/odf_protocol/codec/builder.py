"""Writes a FlatBuffer from its end to its start: alignment, offsets, tables, shared vtables.

Positions count from the end of the buffer, where writing begins; an object is written before
anything refers to it. The bytes are those that the reference builders produce.
Source: the FlatBuffers binary format.
"""

from __future__ import annotations

import struct

_U32 = struct.Struct("<I").pack
_I32 = struct.Struct("<i").pack
_OFFSET_BYTES = 4


class Builder:
    """One buffer under construction. `size` is the number of bytes written so far, which is also
    the position of the last written part."""

    __slots__ = ("_alignment", "_parts", "_vtables", "size")

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes] = []
        self._alignment = 1
        self._vtables: dict[bytes, int] = {}

    def prepend(self, raw: bytes) -> None:
        """Write these bytes before all others, without alignment."""
        self._parts.append(raw)
        self.size += len(raw)

    def align(self, alignment: int, following: int = 0) -> None:
        """Write zeros, so that the part written after `following` more bytes is aligned."""
        if alignment > self._alignment:
            self._alignment = alignment
        if padding := -(self.size + following) % alignment:
            self.prepend(bytes(padding))

    def number(self, layout: struct.Struct, value: int) -> None:
        """Write a scalar, aligned to its own size."""
        self.align(layout.size)
        self.prepend(layout.pack(value))

    def offset(self, target: int) -> None:
        """Write a reference to the object at position `target`."""
        self.align(_OFFSET_BYTES)
        self.prepend(_U32(self.size + _OFFSET_BYTES - target))

    def vector(self, content: bytes, length: int) -> int:
        """Write a vector of `length` items with this content; return its position."""
        self.align(_OFFSET_BYTES, len(content))
        self.prepend(content)
        self.prepend(_U32(length))
        return self.size

    def text(self, content: bytes) -> int:
        """Write a string: a vector of its bytes, and an uncounted zero. Return its position."""
        return self.vector(content + b"\0", len(content))

    def offsets(self, targets: list[int]) -> int:
        """Write a vector of references; return its position."""
        self.align(_OFFSET_BYTES)
        for target in reversed(targets):
            self.offset(target)
        self.prepend(_U32(len(targets)))
        return self.size

    def table(self, start: int, slots: list[int]) -> int:
        """Complete a table whose fields were written since `size` was `start`; return its position.

        `slots` are the positions of the fields, 0 for an absent one. Equal vtables are shared.
        """
        self.align(_OFFSET_BYTES)
        here = self.size + _OFFSET_BYTES
        entries = [here - slot if slot else 0 for slot in slots]
        while entries and not entries[-1]:
            entries.pop()
        count = len(entries) + 2
        vtable = struct.pack(f"<{count}H", 2 * count, here - start, *entries)
        known = self._vtables.get(vtable)
        if known is not None:
            self.prepend(_I32(known - here))
        else:
            self.prepend(_I32(len(vtable)))
            self.prepend(vtable)
            self._vtables[vtable] = self.size
        return here

    def finish(self, root: int) -> bytes:
        """Return the whole buffer, which starts with a reference to its root."""
        self.align(self._alignment, _OFFSET_BYTES)
        self.offset(root)
        return b"".join(reversed(self._parts))
