"""A FlatBuffer from its end to its start: alignment, offsets, tables with shared vtables.

Positions count from the end of the buffer, because that is where writing begins; whatever is
referred to has been written before. Bytes come out as the reference builders make them.
Source: the FlatBuffers binary format.
"""

from __future__ import annotations

import struct

_U32 = struct.Struct("<I").pack
_I32 = struct.Struct("<i").pack
_OFFSET_BYTES = 4


class Builder:
    """One buffer in the making. `size` is what is written so far, hence where the last part is."""

    __slots__ = ("_alignment", "_parts", "_vtables", "size")

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes] = []
        self._alignment = 1
        self._vtables: dict[bytes, int] = {}

    def prepend(self, raw: bytes) -> None:
        """These bytes, before all others and wherever that is."""
        self._parts.append(raw)
        self.size += len(raw)

    def align(self, alignment: int, following: int = 0) -> None:
        """Zeros, so that what is written after `following` more bytes stands aligned."""
        if alignment > self._alignment:
            self._alignment = alignment
        if padding := -(self.size + following) % alignment:
            self.prepend(bytes(padding))

    def number(self, layout: struct.Struct, value: int) -> None:
        """A scalar, aligned to its own size."""
        self.align(layout.size)
        self.prepend(layout.pack(value))

    def offset(self, target: int) -> None:
        """A reference to an object that stands at `target`."""
        self.align(_OFFSET_BYTES)
        self.prepend(_U32(self.size + _OFFSET_BYTES - target))

    def vector(self, content: bytes, length: int) -> int:
        """A vector of `length` items that are these bytes; where it stands."""
        self.align(_OFFSET_BYTES, len(content))
        self.prepend(content)
        self.prepend(_U32(length))
        return self.size

    def text(self, content: bytes) -> int:
        """A string: a vector of its bytes, and a zero that does not count."""
        return self.vector(content + b"\0", len(content))

    def offsets(self, targets: list[int]) -> int:
        """A vector of references; where it stands."""
        self.align(_OFFSET_BYTES)
        for target in reversed(targets):
            self.offset(target)
        self.prepend(_U32(len(targets)))
        return self.size

    def table(self, start: int, slots: list[int]) -> int:
        """Ends a table whose fields were written since `size` was `start`; where it stands.

        `slots` say where each field stands, 0 for an absent one. An equal vtable is shared.
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
        """The whole buffer, which starts with a reference to its root."""
        self.align(self._alignment, _OFFSET_BYTES)
        self.offset(root)
        return b"".join(reversed(self._parts))
