"""Model to FlatBuffers: one interpreter of `tables`, byte-exact with the reference.

Objects are created depth first in declaration order (a sub-table runs both of its passes before
the next field is processed); then the table writes its fields in the same order. Only vtables
are shared. Manifest version 2 writes timestamps at any position; version 3 aligns them to four
bytes.
Source: ODF "Metadata serialization", and the layout rules of the FlatBuffers builder.

Writes a FlatBuffer from its end to its start: alignment, offsets, tables, shared vtables.

Positions count from the end of the buffer, where writing begins; an object is written before
anything refers to it. The bytes are those that the reference builders produce.
Source: the FlatBuffers binary format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..errors import BadInput
from ..identity import DatasetAlias, DatasetId, DatasetRef
from ..instant import Instant
from ..metadata.attributes import MAX_BYTES, Attributes
from ..metadata.schema import Table
from ..multihash import Multihash
from .tables import ENUMS, TABLES, UNIONS, Field

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


MAX_DEPTH = 100
"""Limit of nested tables, for writing and reading alike."""

UNION_SLOTS = 2

_NUMBERS: dict[str, tuple[struct.Struct, int, int]] = {
    "u64": (struct.Struct("<Q"), 0, 2**64 - 1),
    "u32": (struct.Struct("<I"), 0, 2**32 - 1),
    "i64": (struct.Struct("<q"), -(2**63), 2**63 - 1),
    "i32": (struct.Struct("<i"), -(2**31), 2**31 - 1),
    "i16": (struct.Struct("<h"), -(2**15), 2**15 - 1),
}
_BOOL = struct.Struct("<?")
_TIMESTAMP = struct.Struct("<iHxxII")
_TYPES: dict[str, type] = {
    "bool": bool,
    "enum": str,
    "string": str,
    "bytes": bytes,
    "multihash": Multihash,
    "dataset_id": DatasetId,
    "dataset_ref": DatasetRef,
    "dataset_alias": DatasetAlias,
    "timestamp": Instant,
    "attributes": Attributes,
    "table": Table,
    "union": Table,
    "[string]": tuple,
    "[table]": tuple,
    "[union]": tuple,
}


class Unencodable(BadInput):
    """A buffer cannot represent a value: missing, out of range, of another type, or too deep."""


def encode_root(
    name: str,
    value: Table,
    *,
    fields: tuple[Field, ...] | None = None,
    timestamp_alignment: int = 4,
) -> bytes:
    """Return a finished buffer whose root is the named table.

    `fields` describe a table that is not in `TABLES`. Raises `Unencodable`.
    """
    writer = _Writer(timestamp_alignment)
    return writer.builder.finish(writer.table(name, fields or TABLES[name], value))


def check_value(owner: str, field: Field, value: object) -> None:
    """Check that the field can carry the value, apart from its parts. Raises `Unencodable`."""
    where = f"{owner}.{field.name}"
    if field.wire in _NUMBERS:
        _, low, high = _NUMBERS[field.wire]
        if type(value) is not int or not low <= value <= high:
            small = not isinstance(value, int) or -(2**64) <= value <= 2**64
            shown = f"{value!r:.40}" if small else "one beyond 64 bits"
            raise Unencodable(f"{where} takes a whole number from {low} to {high}, not {shown}")
        return
    if not isinstance(value, _TYPES[field.wire]):
        raise Unencodable(f"{where} cannot carry a {type(value).__name__}")
    if field.wire == "enum" and str(value) not in ENUMS[field.of or ""][1]:
        raise Unencodable(f"{where}: {field.of} has no value {value!r}")


def number_range(field: Field) -> tuple[int, int] | None:
    """Return the least and greatest value of an integer field; None for other wires."""
    return _NUMBERS[field.wire][1:] if field.wire in _NUMBERS else None


def _text(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Unencodable(f"{where} is text with surrogates, which UTF-8 cannot carry") from None


class _Writer:
    """Writes one buffer."""

    def __init__(self, timestamp_alignment: int) -> None:
        self.builder = Builder()
        self._timestamp_alignment = timestamp_alignment
        self._depth = 0

    def table(self, name: str, fields: tuple[Field, ...], value: Table) -> int:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unencodable(f"values are nested deeper than {MAX_DEPTH} tables")
        present = self._create_parts(name, fields, value)
        start, slots = self.builder.size, list[int]()
        for field in fields:
            self._put(slots, field, present.get(field.name))
        self._depth -= 1
        return self.builder.table(start, slots)

    def _create_parts(self, name: str, fields: tuple[Field, ...], value: Table) -> dict[str, Any]:
        """First pass: create objects; return for each present field what the table will contain."""
        present: dict[str, Any] = {}
        for field in fields:
            part = getattr(value, field.name)
            if part is None:
                if field.required:
                    raise Unencodable(f"{name}.{field.name} is required")
                continue
            check_value(name, field, part)
            create = _CREATE.get(field.wire)
            present[field.name] = create(self, name, field, part) if create else part
        return present

    def _put(self, slots: list[int], field: Field, value: Any) -> None:
        """Second pass: write one field into the table, and append its position to `slots`."""
        builder = self.builder
        if field.wire == "union":
            self._put_union(slots, value)
            return
        if value is None:
            slots.append(0)
            return
        if field.wire in _CREATE:
            builder.offset(value)
        elif field.wire == "timestamp":
            year, ordinal, seconds, nanos = value.fields()
            builder.align(self._timestamp_alignment, _TIMESTAMP.size)
            builder.prepend(_TIMESTAMP.pack(year, ordinal, seconds, nanos))
        else:
            layout, plain = _scalar(field, value)
            if field.required and plain == 0:
                slots.append(0)
                return
            builder.number(layout, plain)
        slots.append(builder.size)

    def _put_union(self, slots: list[int], value: tuple[int, int] | None) -> None:
        if value is None:
            slots += (0,) * UNION_SLOTS
            return
        tag, target = value
        self.builder.prepend(bytes((tag,)))
        slots.append(self.builder.size)
        self.builder.offset(target)
        slots.append(self.builder.size)

    def bytes_(self, _: str, field: Field, value: Any) -> int:
        raw = value if field.wire == "bytes" else value.raw
        return self.builder.vector(raw, len(raw))

    def string(self, name: str, field: Field, value: Any) -> int:
        return self.builder.text(_text(str(value), f"{name}.{field.name}"))

    def attributes(self, name: str, field: Field, value: Any) -> int:
        raw = _text(value.text, f"{name}.{field.name}")
        if len(raw) > MAX_BYTES:
            raise Unencodable(f"{name}.{field.name} has more than {MAX_BYTES} bytes")
        text = self.builder.text(raw)
        start = self.builder.size
        self.builder.offset(text)
        return self.builder.table(start, [self.builder.size])

    def subtable(self, name: str, field: Field, value: Any) -> int:
        if type(value).__name__ != field.of:
            raise Unencodable(f"{name}.{field.name} cannot carry a {type(value).__name__}")
        return self.table(field.of, TABLES[field.of], value)

    def union(self, name: str, field: Field, value: Any) -> tuple[int, int]:
        variants, variant = UNIONS[field.of or ""], type(value).__name__
        if variant not in variants:
            raise Unencodable(f"{name}.{field.name}: {variant} is no {field.of}")
        return variants.index(variant) + 1, self.table(variant, TABLES[variant], value)

    def strings(self, name: str, field: Field, value: Any) -> int:
        for item in value:
            if not isinstance(item, str):
                raise Unencodable(f"{name}.{field.name} is a list of text only")
        return self.builder.offsets([self.string(name, field, item) for item in value])

    def tables(self, name: str, field: Field, value: Any) -> int:
        return self.builder.offsets([self.subtable(name, field, item) for item in value])

    def unions(self, name: str, field: Field, value: Any) -> int:
        return self.builder.offsets([self._wrapped(name, field, item) for item in value])

    def _wrapped(self, name: str, field: Field, value: Any) -> int:
        tag_and_offset = self.union(name, field, value)
        start, slots = self.builder.size, list[int]()
        self._put_union(slots, tag_and_offset)
        return self.builder.table(start, slots)


def _scalar(field: Field, value: Any) -> tuple[struct.Struct, int]:
    if field.wire == "enum":
        carrier, names = ENUMS[field.of or ""]
        return _NUMBERS[carrier][0], names.index(str(value))
    if field.wire == "bool":
        return _BOOL, value
    return _NUMBERS[field.wire][0], value


_CREATE: dict[str, Callable[[_Writer, str, Field, Any], Any]] = {
    "string": _Writer.string,
    "dataset_ref": _Writer.string,
    "dataset_alias": _Writer.string,
    "bytes": _Writer.bytes_,
    "multihash": _Writer.bytes_,
    "dataset_id": _Writer.bytes_,
    "attributes": _Writer.attributes,
    "table": _Writer.subtable,
    "union": _Writer.union,
    "[string]": _Writer.strings,
    "[table]": _Writer.tables,
    "[union]": _Writer.unions,
}
"""Wires that are separate objects, created in the first pass."""
