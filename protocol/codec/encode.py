"""Model to FlatBuffers: one interpreter over `tables.py`, byte-exact.

Objects are created depth first in declaration order (a sub-table runs its own two passes
before the next field is looked at), then the table visits its fields again in the same
order. Nothing is shared but vtables. Manifest version 2 puts timestamps wherever the write
position happens to be; version 3 aligns them to four bytes.
Source: ODF "Metadata serialization", and the layout rules of the FlatBuffers builder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatbuffers import Builder
from flatbuffers import number_types as number

from ..attributes import Attributes
from ..errors import BadInput
from ..identity import DatasetAlias, DatasetId, DatasetRef
from ..instant import Instant
from ..metadata.table import Table
from ..multihash import Multihash
from .tables import ENUMS, TABLES, UNIONS, Field

MAX_DEPTH = 100
"""Tables inside of tables; written and read alike."""

UNION_SLOTS = 2

_NUMBERS: dict[str, tuple[Any, int, int]] = {
    "u64": (number.Uint64Flags, 0, 2**64 - 1),
    "u32": (number.Uint32Flags, 0, 2**32 - 1),
    "i64": (number.Int64Flags, -(2**63), 2**63 - 1),
    "i32": (number.Int32Flags, -(2**31), 2**31 - 1),
    "i16": (number.Int16Flags, -(2**15), 2**15 - 1),
}
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
    """A value the wire cannot carry: missing, out of range, of another type, or too deep."""


def encode_root(
    name: str,
    value: Table,
    *,
    fields: tuple[Field, ...] | None = None,
    timestamp_alignment: int = 4,
) -> bytes:
    """A finished buffer whose root is that table.

    `fields` describe a table that is not in `TABLES`. Raises `Unencodable`.
    """
    writer = _Writer(timestamp_alignment)
    root = writer.table(name, fields or TABLES[name], value)
    writer.builder.Finish(root)
    return bytes(writer.builder.Output())


def check_value(owner: str, field: Field, value: object) -> None:
    """That the value is one the field can carry, its own parts aside. Raises `Unencodable`."""
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
    """Least and greatest value of a whole number; none for other wires."""
    return _NUMBERS[field.wire][1:] if field.wire in _NUMBERS else None


def _text(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Unencodable(f"{where} is text with surrogates, which UTF-8 cannot carry") from None


class _Writer:
    """One buffer in the making."""

    def __init__(self, timestamp_alignment: int) -> None:
        self.builder = Builder(1024)
        self._timestamp_alignment = timestamp_alignment
        self._depth = 0

    def table(self, name: str, fields: tuple[Field, ...], value: Table) -> int:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unencodable(f"values are nested deeper than {MAX_DEPTH} tables")
        present = self._create_parts(name, fields, value)
        width = sum(UNION_SLOTS if field.wire == "union" else 1 for field in fields)
        self.builder.StartObject(width)
        slot = 0
        for field in fields:
            if field.name in present:
                self._place(slot, field, present[field.name])
            slot += UNION_SLOTS if field.wire == "union" else 1
        self._depth -= 1
        return int(self.builder.EndObject())

    def _create_parts(self, name: str, fields: tuple[Field, ...], value: Table) -> dict[str, Any]:
        """First pass: what each present field puts into the table, objects already written."""
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

    def _place(self, slot: int, field: Field, value: Any) -> None:
        """Second pass: one field of the open table."""
        builder = self.builder
        if field.wire in _CREATE:
            if field.wire == "union":
                tag, offset = value
                builder.PrependUint8(tag)
                builder.Slot(slot)
                builder.PrependUOffsetTRelative(offset)
                builder.Slot(slot + 1)
            else:
                builder.PrependUOffsetTRelative(value)
                builder.Slot(slot)
            return
        if field.wire == "timestamp":
            self._place_timestamp(value)
        else:
            flags, plain = _scalar(field, value)
            if field.required and plain == 0:
                return
            builder.Prepend(flags, plain)
        builder.Slot(slot)

    def _place_timestamp(self, when: Instant) -> None:
        year, ordinal, seconds, nanos = when.fields()
        builder = self.builder
        builder.Prep(self._timestamp_alignment, 16)
        builder.Place(nanos, number.Uint32Flags)
        builder.Place(seconds, number.Uint32Flags)
        builder.Place(0, number.Uint16Flags)
        builder.Place(ordinal, number.Uint16Flags)
        builder.Place(year, number.Int32Flags)

    def bytes_(self, _: str, field: Field, value: Any) -> int:
        raw = value if field.wire == "bytes" else value.raw
        return int(self.builder.CreateByteVector(raw))

    def string(self, name: str, field: Field, value: Any) -> int:
        return int(self.builder.CreateString(_text(str(value), f"{name}.{field.name}")))

    def attributes(self, name: str, field: Field, value: Any) -> int:
        text = self.builder.CreateString(_text(value.text, f"{name}.{field.name}"))
        self.builder.StartObject(1)
        self.builder.PrependUOffsetTRelative(text)
        self.builder.Slot(0)
        return int(self.builder.EndObject())

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
        return self._offsets([self.string(name, field, item) for item in value])

    def tables(self, name: str, field: Field, value: Any) -> int:
        return self._offsets([self.subtable(name, field, item) for item in value])

    def unions(self, name: str, field: Field, value: Any) -> int:
        return self._offsets([self._wrapped(name, field, item) for item in value])

    def _wrapped(self, name: str, field: Field, value: Any) -> int:
        tag_and_offset = self.union(name, field, value)
        self.builder.StartObject(UNION_SLOTS)
        self._place(0, Field("value", "union", field.of), tag_and_offset)
        return int(self.builder.EndObject())

    def _offsets(self, offsets: list[int]) -> int:
        builder = self.builder
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())


def _scalar(field: Field, value: Any) -> tuple[Any, int]:
    if field.wire == "enum":
        carrier, names = ENUMS[field.of or ""]
        return _NUMBERS[carrier][0], names.index(str(value))
    if field.wire == "bool":
        return number.BoolFlags, value
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
"""Wires that are an object of their own, created in the first pass."""
