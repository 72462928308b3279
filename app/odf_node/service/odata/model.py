"""Datasets as entity sets: names, properties with their types, and `$metadata`.

A name of OData has letters, digits and underscores. Any other character is written `_xHHHH_`, and
the true name stands beside it as an annotation.

Source: OData CSDL XML 4.01, "Primitive Types"; URL Conventions, "Names".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from xml.sax.saxutils import quoteattr

from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataSchema, DataType, TimeUnit

NAMESPACE = "odf"
KEY = "offset"
CORE = "https://oasis-tcs.github.io/odata-vocabularies/vocabularies/Org.OData.Core.V1.xml"
_LOCAL = ""
"""Time zone of timestamps without a zone."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPED = re.compile(r"_x([0-9A-F]{4,6})_", re.ASCII)
_DIGITS = {TimeUnit.Second: 0, None: 3, TimeUnit.Millisecond: 3}
_DIGITS |= {TimeUnit.Microsecond: 6, TimeUnit.Nanosecond: 9}
_SAME: dict[type, str] = {
    odf.DataTypeBool: "Edm.Boolean",
    odf.DataTypeInt8: "Edm.SByte",
    odf.DataTypeInt16: "Edm.Int16",
    odf.DataTypeInt32: "Edm.Int32",
    odf.DataTypeInt64: "Edm.Int64",
    odf.DataTypeUInt8: "Edm.Byte",
    odf.DataTypeUInt16: "Edm.Int32",
    odf.DataTypeUInt32: "Edm.Int64",
    odf.DataTypeFloat16: "Edm.Single",
    odf.DataTypeFloat32: "Edm.Single",
    odf.DataTypeFloat64: "Edm.Double",
    odf.DataTypeString: "Edm.String",
    odf.DataTypeBinary: "Edm.Binary",
    odf.DataTypeDate: "Edm.Date",
    odf.DataTypeDuration: "Edm.Duration",
    odf.DataTypeNull: "Edm.String",
}


def odata_name(name: str) -> str:
    """Return the name as OData writes it. Different names stay different."""
    name = _ESCAPED.sub(lambda found: f"_x005F_{found[0][1:]}", name)
    if _PLAIN.fullmatch(name):
        return name
    told = [one if _PLAIN.fullmatch(f"_{one}") else f"_x{ord(one):04X}_" for one in name]
    if told and told[0].isdigit():
        told[0] = f"_x{ord(told[0]):04X}_"
    return "".join(told)


def true_name(name: str) -> str:
    """Return the name that `odata_name` has written."""
    return _ESCAPED.sub(lambda found: _character(found[1], found[0]), name)


def _character(digits: str, whole: str) -> str:
    number = int(digits, 16)
    return chr(number) if number <= 0x10FFFF else whole


@dataclass(frozen=True, slots=True)
class Property:
    """A column, or a member of a struct."""

    name: str
    """As OData writes it."""
    column: str
    """Its name in SQL."""
    type: str
    """`Edm.…`, `Collection(…)`, or the name of a complex type."""
    precision: int | None = None
    scale: int | None = None
    members: tuple[Property, ...] = ()
    """Those of its complex type."""

    @property
    def is_plain(self) -> bool:
        return self.type.startswith("Edm.")


@dataclass(frozen=True)
class EntityType:
    """The columns of a dataset. `left_out` are those that OData has no type for."""

    name: str
    properties: tuple[Property, ...]
    left_out: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Property]:
        return {each.name: each for each in self.properties}


@dataclass
class _Types:
    """Finds the types of columns."""

    entity: str
    left_out: list[str] = field(default_factory=list)

    def properties(self, schema: DataSchema) -> Iterator[Property]:
        for each in schema.fields:
            found = self.property(each.name, each.type, self.entity)
            if found is None:
                self.left_out.append(each.name)
            else:
                yield found

    def property(self, column: str, data_type: DataType, outer: str) -> Property | None:
        """Return the property; None if OData has no type for it."""
        name = odata_name(column)
        match data_type:
            case odf.DataTypeOption(inner=inner):
                return self.property(column, inner, outer)
            case odf.DataTypeDecimal(precision=digits, scale=scale):
                return Property(name, column, "Edm.Decimal", digits, scale)
            case odf.DataTypeUInt64():
                return Property(name, column, "Edm.Decimal", 20, 0)
            case odf.DataTypeTimestamp(unit=unit, timezone=zone):
                if zone == _LOCAL:
                    return Property(name, column, "Edm.String")
                return Property(name, column, "Edm.DateTimeOffset", _DIGITS[unit])
            case odf.DataTypeTime(unit=unit):
                return Property(name, column, "Edm.TimeOfDay", _DIGITS[unit])
            case odf.DataTypeStruct(fields=fields):
                told = [(each.name, each.type) for each in fields]
                return self._complex(name, column, told, outer)
            case odf.DataTypeMap(key_type=key, value_type=value):
                pair = self._complex(name, column, [("key", key), ("value", value)], outer)
                return pair and _collection(name, column, pair)
            case odf.DataTypeList(item_type=item):
                of = self.property(column, item, outer)
                is_list = of is None or of.type.startswith("Collection(")
                return None if of is None or is_list else _collection(name, column, of)
        return Property(name, column, _SAME[type(data_type)])

    def _complex(
        self, name: str, column: str, inner: Sequence[tuple[str, DataType]], outer: str
    ) -> Property | None:
        own = f"{outer}.{name}"
        found = [self.property(each, kind, own) for each, kind in inner]
        members = tuple(each for each in found if each is not None)
        if not members or len(members) < len(found):
            return None
        return Property(name, column, own, members=members)


def _collection(name: str, column: str, of: Property) -> Property:
    return Property(name, column, f"Collection({of.type})", of.precision, of.scale, of.members)


def entity_type(dataset: str, schema: DataSchema) -> EntityType:
    """Return the type of the rows of a dataset."""
    types = _Types(odata_name(dataset))
    properties = tuple(types.properties(schema))
    return EntityType(types.entity, properties, tuple(types.left_out))


def metadata(sets: Sequence[tuple[str, EntityType]], about: str) -> str:
    """Return `$metadata` of entity sets, each with its name and type. `about` says what is left
    out."""
    kinds = {kind.name: kind for _, kind in sets}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<edmx:Edmx Version="4.0" xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx">',
        f'<edmx:Reference Uri="{CORE}">',
        '<edmx:Include Namespace="Org.OData.Core.V1" Alias="Core"/></edmx:Reference>',
        "<edmx:DataServices>",
        f'<Schema Namespace="{NAMESPACE}" xmlns="http://docs.oasis-open.org/odata/ns/edm">',
    ]
    for kind in kinds.values():
        lines += _entity_lines(kind)
    lines.append('<EntityContainer Name="Container">')
    lines += [f'<EntitySet Name="{name}" EntityType="{_full(kind.name)}"/>' for name, kind in sets]
    lines += [_told(about), "</EntityContainer>"] if about else ["</EntityContainer>"]
    lines.append("</Schema></edmx:DataServices></edmx:Edmx>")
    return "\n".join(lines)


def _entity_lines(kind: EntityType) -> Iterator[str]:
    for each in kind.properties:
        yield from _complex_lines(each)
    yield f'<EntityType Name="{kind.name}">'
    if KEY in kind.by_name:
        yield f'<Key><PropertyRef Name="{KEY}"/></Key>'
    for each in kind.properties:
        yield _property_line(each, is_key=each.name == KEY)
    if kind.left_out:
        names = ", ".join(kind.left_out)
        yield _told(f"OData has no type for these columns, which are left out: {names}")
    yield "</EntityType>"


def _complex_lines(each: Property) -> Iterator[str]:
    for member in each.members:
        yield from _complex_lines(member)
    if each.members:
        name = each.type.removeprefix("Collection(").rstrip(")")
        yield f'<ComplexType Name="{_flat(name)}">'
        yield from (_property_line(member) for member in each.members)
        yield "</ComplexType>"


def _property_line(each: Property, *, is_key: bool = False) -> str:
    more = ' Nullable="false"' if is_key else ""
    if each.precision is not None:
        more += f' Precision="{each.precision}"'
    if each.scale is not None:
        more += f' Scale="{each.scale}"'
    line = f'<Property Name="{each.name}" Type="{_type(each.type)}"{more}'
    if each.name == each.column:
        return f"{line}/>"
    return f"{line}>{_told(each.column)}</Property>"


def _type(name: str) -> str:
    if name.startswith("Collection("):
        return f"Collection({_type(name[11:-1])})"
    return name if name.startswith("Edm.") else _full(_flat(name))


def _flat(name: str) -> str:
    """Return the name of a complex type: those of its outer ones are parts of it."""
    return name.replace(".", "__")


def _full(name: str) -> str:
    return f"{NAMESPACE}.{name}"


def _told(text: str) -> str:
    return f'<Annotation Term="Core.Description" String={quoteattr(text)}/>'
