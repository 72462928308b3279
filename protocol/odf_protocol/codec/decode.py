"""FlatBuffers to model: a reader for untrusted bytes.

Every offset is checked against the buffer, every string against UTF-8, every table against its
required fields. Depth is limited. The bytes visited, however parts are shared, may not exceed
`MAX_SHARING` times the buffer. So the input limits time and memory: at most fifty bytes per byte
while reading (attribute maps of brackets alone) and a dozen for the result, usually three. Parts
that only newer writers know raise `NotKnown`, which the block codec turns into an `UnknownEvent`.

The reading plan of each vtable is cached, so that decoding follows prepared steps.
Source: the FlatBuffers binary format; ODF "Metadata serialization" for what is required.

Maps the table names of the wire model to Python classes.

`tables` uses names only; this module finds the classes. The two `…Root` tables exist only in
messages, as wrappers of the unions with which engines respond.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NoReturn

from ..errors import BadInput
from ..identity import DatasetAlias, DatasetId, DatasetRef
from ..instant import Instant
from ..metadata import events, schema, sources
from ..metadata.attributes import Attributes
from ..metadata.schema import Table
from ..multihash import Multihash
from .encode import MAX_DEPTH, UNION_SLOTS
from .tables import ENUMS, TABLES, UNIONS, Field


class RawQueryResponseRoot(Table, frozen=True, kw_only=True):
    """Wrapper of a response to `ExecuteRawQuery`."""

    value: events.RawQueryResponse


class TransformResponseRoot(Table, frozen=True, kw_only=True):
    """Wrapper of a response to `ExecuteTransform`."""

    value: events.TransformResponse


_ROOMS = (schema, sources, events)
_NAMED = {name: value for room in _ROOMS for name, value in vars(room).items()}

MODELS: dict[str, type[Table]] = {
    name: value
    for name, value in (
        *_NAMED.items(),
        ("RawQueryResponseRoot", RawQueryResponseRoot),
        ("TransformResponseRoot", TransformResponseRoot),
    )
    if isinstance(value, type) and issubclass(value, Table) and value.__name__ == name
}
"""The class of each table, by the table's name."""

ENUM_TYPES: dict[str, type[StrEnum]] = {
    name: value
    for name, value in _NAMED.items()
    if isinstance(value, type) and issubclass(value, StrEnum) and value is not StrEnum
}
"""Every enum class, by name."""


MAX_SHARING = 4
"""Limit of bytes visited per byte of input. Writers share only vtables, which stays below 2."""
PLANS_PER_TABLE = 64
"""Number of vtables per table whose reading plans are cached."""
MAX_VTABLE_BYTES = 516
"""Limit in bytes of a vtable, enough for 256 slots; the widest table has 11."""

_U32 = struct.Struct("<I").unpack_from
_I32 = struct.Struct("<i").unpack_from
_U16 = struct.Struct("<H").unpack_from
_TIMESTAMP = struct.Struct("<iHxxII")
_SCALARS = {
    "u64": struct.Struct("<Q"),
    "u32": struct.Struct("<I"),
    "i64": struct.Struct("<q"),
    "i32": struct.Struct("<i"),
    "i16": struct.Struct("<h"),
    "bool": struct.Struct("<?"),
}
_OFFSET_WIDTH = 4

Read = Callable[["ByteSource", int], Any]
"""Reads a value, given the source and the position of the field."""


class MalformedBuffer(BadInput):
    """The bytes are not a FlatBuffer of the expected table."""


class NotKnown(BadInput):
    """A well-formed part that only newer writers know."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not known here: {what}", what=what)
        self.what = what


class ByteSource:
    """One buffer, with the number of bytes and the depth that may still be visited."""

    __slots__ = ("depth", "left", "raw", "size")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.size = len(raw)
        self.left = MAX_SHARING * len(raw)
        self.depth = MAX_DEPTH

    def refuse(self) -> NoReturn:
        """Raise the error for a part that is out of bounds or exceeds the number of bytes left."""
        if self.left < 0:
            raise MalformedBuffer(f"parts are shared more than {MAX_SHARING} times over")
        raise MalformedBuffer("an offset points outside of the buffer")

    def follow(self, at: int) -> int:
        """Return the target of the forward offset at this position."""
        target: int = at + _U32(self.raw, at)[0]
        return target

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Return start and end of the items of the vector to which the offset points."""
        start = at + _U32(self.raw, at)[0] + 4
        length = _U32(self.raw, start - 4)[0] * width
        self.left -= length + 4
        if start + length > self.size or self.left < 0:
            self.refuse()
        return start, start + length

    def bytes_(self, at: int) -> bytes:
        """Return the content of a byte vector. As `vector`, in one step, because it is frequent."""
        raw = self.raw
        start = at + _U32(raw, at)[0] + 4
        end: int = start + _U32(raw, start - 4)[0]
        self.left -= end - start + 4
        if end > self.size or self.left < 0:
            self.refuse()
        return raw[start:end]

    def text(self, at: int) -> str:
        try:
            return str(self.bytes_(at), "utf-8")
        except UnicodeDecodeError:
            raise MalformedBuffer("a string is not UTF-8", at=at) from None


def decode_root(name: str, raw: bytes) -> Any:
    """Decode a buffer whose root is the named table.

    Raises:
        MalformedBuffer: the bytes are not such a buffer.
        NotKnown: the buffer has parts that only newer writers know.
    """
    return read_guarded(raw, PLANS[name].read)


def read_guarded(raw: bytes, read: Read) -> Any:
    """Read at the root of a buffer; convert all errors of the bytes to `MalformedBuffer`."""
    source = ByteSource(raw)
    try:
        return read(source, source.follow(0))
    except struct.error:
        raise MalformedBuffer("the buffer is cut short or an offset is wild") from None
    except (MalformedBuffer, NotKnown):
        raise
    except BadInput as problem:
        raise MalformedBuffer(problem.message) from None


@dataclass(frozen=True, slots=True)
class Layout:
    """The steps to read a table with one particular vtable."""

    inline: int
    charge: int
    steps: tuple[tuple[str, Read, int], ...]
    defaults: dict[str, Any]
    unknown: str | None = None


class TablePlan:
    """Reads one table of the model with any vtable."""

    __slots__ = ("_layout", "fields", "model", "name")

    def __init__(self, name: str, fields: tuple[Field, ...], model: type[Table]) -> None:
        self.name, self.fields, self.model = name, fields, model
        self._layout = lru_cache(maxsize=PLANS_PER_TABLE)(self._plan)

    def read(self, source: ByteSource, at: int) -> Any:
        """Read the table at this position. Raises as `decode_root`, and `struct.error`."""
        layout = self.layout(source, at)
        if layout.unknown is not None:
            raise NotKnown(layout.unknown)
        values = layout.defaults.copy()
        for name, read, offset in layout.steps:
            values[name] = read(source, at + offset)
        source.depth += 1
        return self.model(**values)

    def layout(self, source: ByteSource, at: int) -> Layout:
        """Return the plan for the table at this position; check bounds and charge its bytes."""
        source.depth -= 1
        if source.depth < 0:
            raise MalformedBuffer(f"tables are nested deeper than {MAX_DEPTH}")
        raw = source.raw
        vtable = at - _I32(raw, at)[0]
        if vtable < 0:
            raise MalformedBuffer("a vtable lies outside of the buffer", at=at)
        (size,) = _U16(raw, vtable)
        if size > MAX_VTABLE_BYTES or vtable + size > source.size:
            raise MalformedBuffer("a vtable is cut short or too large", at=vtable)
        layout = self._layout(raw[vtable : vtable + size])
        source.left -= layout.charge
        if at + layout.inline > source.size or source.left < 0:
            source.refuse()
        return layout

    def _plan(self, vtable: bytes) -> Layout:
        inline, offsets = _unpack_vtable(vtable)
        steps: list[tuple[str, Read, int]] = []
        defaults: dict[str, Any] = {}
        slots = iter(offsets + (0,) * (UNION_SLOTS * len(self.fields)))
        for field in self.fields:
            tag = next(slots) if field.wire == "union" else 0
            at = next(slots)
            _check_slot(field, tag, at, inline)
            if field.wire == "union" and tag:
                steps.append((field.name, _union_reader(self.name, field, at - tag), tag))
            elif field.wire != "union" and at:
                steps.append((field.name, _reader(field), at))
            elif field.required:
                defaults[field.name] = field
        known = sum(UNION_SLOTS if field.wire == "union" else 1 for field in self.fields)
        extra = next((slot for slot, at in enumerate(offsets) if slot >= known and at), None)
        unknown = None if extra is None else f"slot {extra} of {self.name}"
        if unknown is None:
            defaults = {name: self._default(field) for name, field in defaults.items()}
        return Layout(inline, inline + len(vtable), tuple(steps), defaults, unknown)

    def _default(self, field: Field) -> Any:
        """Return the value of a required field that is absent; only numbers and enums have one."""
        if field.wire in _SCALARS:
            return 0
        if field.wire == "enum":
            return ENUM_TYPES[field.of or ""](ENUMS[field.of or ""][1][0])
        raise MalformedBuffer(f"{self.name}.{field.name} is required and not there")


def _unpack_vtable(vtable: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the inline size of the table and the offsets of its slots."""
    if len(vtable) < 4 or len(vtable) % 2:
        raise MalformedBuffer("a vtable has an impossible size")
    _, inline, *offsets = struct.unpack(f"<{len(vtable) // 2}H", vtable)
    if inline < 4:
        raise MalformedBuffer("a table is smaller than its own head")
    return inline, tuple(offsets)


def _check_slot(field: Field, tag: int, at: int, inline: int) -> None:
    """Check that the field is inside of its table according to the vtable."""
    if tag and (tag < 4 or tag >= inline or not at):
        raise MalformedBuffer(f"union {field.name} has a kind outside of its table or no value")
    if at and (at < 4 or at + _width(field) > inline):
        raise MalformedBuffer(f"field {field.name} lies outside of its table")


def _width(field: Field) -> int:
    if field.wire == "timestamp":
        return _TIMESTAMP.size
    wire = ENUMS[field.of or ""][0] if field.wire == "enum" else field.wire
    return _SCALARS[wire].size if wire in _SCALARS else _OFFSET_WIDTH


def _reader(field: Field) -> Read:
    """Return the reader of a field that is not a union."""
    if field.wire in _LEAVES:
        return _LEAVES[field.wire]
    return _MAKERS[field.wire](field)


def _scalar_reader(layout: struct.Struct) -> Read:
    unpack = layout.unpack_from
    return lambda source, at: unpack(source.raw, at)[0]


def _enum_reader(field: Field) -> Read:
    carrier, names = ENUMS[field.of or ""]
    unpack = _SCALARS[carrier].unpack_from
    members = tuple(ENUM_TYPES[field.of or ""](name) for name in names)

    def read(source: ByteSource, at: int) -> Any:
        (value,) = unpack(source.raw, at)
        if not 0 <= value < len(members):
            raise NotKnown(f"value {value} of {field.of}")
        return members[value]

    return read


def _timestamp(source: ByteSource, at: int) -> Instant:
    return Instant.from_fields(*_TIMESTAMP.unpack_from(source.raw, at))


def _table_reader(field: Field) -> Read:
    read = PLANS[field.of or ""].read
    return lambda source, at: read(source, at + _U32(source.raw, at)[0])


def _union_reader(owner: str, field: Field, delta: int) -> Read:
    """Return a reader for a union, which starts at the discriminator; the offset to the value is
    `delta` bytes after it."""
    plans = tuple(PLANS[variant] for variant in UNIONS[field.of or ""])

    def read(source: ByteSource, at: int) -> Any:
        tag = source.raw[at]
        if tag > len(plans):
            raise NotKnown(f"variant {tag} of {field.of}")
        if tag == 0:
            if field.required:
                raise MalformedBuffer(f"{owner}.{field.name} is required and not there")
            return None
        at += delta
        return plans[tag - 1].read(source, at + _U32(source.raw, at)[0])

    return read


def _attributes(source: ByteSource, at: int) -> Attributes:
    text: str | None = _ATTRIBUTES.read(source, source.follow(at)).text
    if text is None:
        raise MalformedBuffer("an attribute map has no text")
    attributes = Attributes(text)
    attributes.check()
    return attributes


def _list_of(read_item: Read) -> Read:
    def read(source: ByteSource, at: int) -> tuple[Any, ...]:
        start, end = source.vector(at, _OFFSET_WIDTH)
        return tuple([read_item(source, here) for here in range(start, end, _OFFSET_WIDTH)])

    return read


def _wrapper_reader(field: Field) -> Read:
    """Return the reader of a union inside of a vector, where a table with one field wraps it."""
    name = f"{field.of}Wrapper"
    plan = TablePlan(name, (Field("value", "union", field.of, required=True),), _Wrapper)
    return lambda source, at: plan.read(source, source.follow(at)).value


class _Wrapper(Table, frozen=True, kw_only=True):
    value: Any


class _AttributesTable(Table, frozen=True, kw_only=True):
    text: str | None = None


_LEAVES: dict[str, Read] = {
    **{wire: _scalar_reader(layout) for wire, layout in _SCALARS.items()},
    "timestamp": _timestamp,
    "string": ByteSource.text,
    "bytes": ByteSource.bytes_,
    "multihash": lambda source, at: Multihash.decode(source.bytes_(at)),
    "dataset_id": lambda source, at: DatasetId.decode(source.bytes_(at)),
    "dataset_ref": lambda source, at: DatasetRef.parse(source.text(at)),
    "dataset_alias": lambda source, at: DatasetAlias.parse(source.text(at)),
    "attributes": _attributes,
    "[string]": _list_of(ByteSource.text),
}
"""Readers of wires that refer to no other type."""
_MAKERS: dict[str, Callable[[Field], Read]] = {
    "enum": _enum_reader,
    "table": _table_reader,
    "[table]": lambda field: _list_of(_table_reader(field)),
    "[union]": lambda field: _list_of(_wrapper_reader(field)),
}
"""Functions that make a reader for the type of a field; the plan makes those of unions."""

_ATTRIBUTES = TablePlan("ExtraAttributes", (Field("text", "string"),), _AttributesTable)
PLANS: dict[str, TablePlan] = {
    name: TablePlan(name, fields, MODELS[name]) for name, fields in TABLES.items()
}
