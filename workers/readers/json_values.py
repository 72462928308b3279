"""Convert JSON values to typed columns, and infer their types.

Numeric columns accept numbers in quotes, and columns of whole numbers cut fractions. Text columns
refuse numbers, and boolean columns refuse text. Keys are case-sensitive; a missing key is null, a
surplus one is ignored. A number in a column of times is a count of the column's unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from odf_node.protocol.time_patterns import TimePattern

from ..slices.frame import Unsupported
from .forms import PLAIN, Forms, iso_of
from .json_scan import NumberText
from .text import (
    cast_text,
    parse_date,
    parse_decimal,
    parse_float,
    parse_one,
    parse_time,
    parse_timestamp,
)

Convert = Callable[[Any], Any]
_INT64 = range(-(2**63), 2**63)
_PLAIN: dict[type, Callable[[pa.DataType], bool]] = {
    int: pa.types.is_integer,
    str: lambda t: pa.types.is_string(t) or pa.types.is_large_string(t),
    bool: pa.types.is_boolean,
}


@dataclass(frozen=True, slots=True)
class How:
    """Rules for reading values. `exact` refuses a fraction as a whole number, and a number as a
    time, since the types were not declared."""

    exact: bool = False
    forms: Forms = PLAIN


AS_DECLARED = How()


class Misfit(ValueError):
    """A value that its column cannot contain; `index` is its row in the batch."""

    def __init__(self, index: int, value: object) -> None:
        super().__init__("misfit")
        self.index, self.value = index, value


def column_of(
    values: Sequence[Any], wanted: pa.DataType, convert: Convert, how: How = AS_DECLARED
) -> pa.Array:
    """Convert the values of one column of a batch. Raises `Misfit`."""
    try:
        if _already(values, wanted):
            return pa.array(values, wanted)
        if _times_as_text(values, wanted):
            return cast_text(how.forms.iso(pa.array(values, pa.string()), wanted), wanted)
        converted = [None if value is None else convert(value) for value in values]
        return pa.array(converted, wanted)
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        raise _first_misfit(values, wanted, convert) from None


def converter(wanted: pa.DataType, *, column: str, how: How = AS_DECLARED) -> Convert:
    """Return the function that converts a JSON value to the form that `pa.array` accepts for the
    type. Raises `Unsupported`."""
    if pa.types.is_struct(wanted):
        return _struct(wanted, column, how)
    if pa.types.is_map(wanted):
        return _map(wanted, column, how)
    if pa.types.is_list(wanted) or pa.types.is_large_list(wanted) or _is_fixed_list(wanted):
        return _list(wanted, column, how)
    if (pattern := how.forms.pattern(wanted)) is not None:
        return _of_pattern(pattern)(wanted)
    if how.exact and (make := _exact(wanted)) is not None:
        return make(wanted)
    for matches, make in _SCALARS:
        if matches(wanted):
            return make(wanted)
    raise Unsupported(f"column `{column}`: JSON has no form for {wanted}", column=column)


def infer(records: Iterable[Mapping[str, Any]]) -> pa.Schema:
    """Infer the schema of the records: keys of each in alphabetical order, new ones at the end."""
    found: dict[str, pa.DataType] = {}
    for record in records:
        for key in sorted(record):
            found[key] = _join(found.get(key, pa.null()), _type_of(record[key]))
    return pa.schema(list(found.items()))


def _already(values: Sequence[Any], wanted: pa.DataType) -> bool:
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return True
    matches = _PLAIN.get(kinds.pop())
    return not kinds and matches is not None and matches(wanted)


def _times_as_text(values: Sequence[Any], wanted: pa.DataType) -> bool:
    is_time = pa.types.is_timestamp(wanted) or pa.types.is_date(wanted)
    return is_time and set(map(type, values)) <= {str, type(None)}


def _first_misfit(values: Sequence[Any], wanted: pa.DataType, convert: Convert) -> Misfit:
    for index, value in enumerate(values):
        try:
            pa.array([None if value is None else convert(value)], wanted)
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            return Misfit(index, value)
    return Misfit(0, None)


def _integer(wanted: pa.DataType) -> Convert:
    def convert(value: Any) -> int:
        kind = type(value)
        if kind is int:
            return int(value)
        if kind is NumberText:
            return math.trunc(float(value))
        if kind is str:
            return int(parse_one(value, wanted))
        raise ValueError("no number")

    return convert


def _exact(wanted: pa.DataType) -> Callable[[pa.DataType], Convert] | None:
    """Return a strict converter for a type whose usual converter would lose part of a value."""
    if pa.types.is_integer(wanted):
        return _whole
    if pa.types.is_timestamp(wanted):
        return _text_of(parse_timestamp)
    if pa.types.is_date(wanted):
        return _text_of(parse_date)
    return None


def _whole(wanted: pa.DataType) -> Convert:
    inexact = _integer(wanted)

    def convert(value: Any) -> int:
        if type(value) is NumberText and not float(value).is_integer():
            raise ValueError("a fraction")
        return int(inexact(value))

    return convert


def _of_pattern(pattern: TimePattern) -> Callable[[pa.DataType], Convert]:
    def parse(text: str, wanted: pa.DataType) -> Any:
        return parse_one(iso_of(pattern, text, wanted), wanted)

    return _text_of(parse)


def _text_of(parse: Callable[[str, pa.DataType], Any]) -> Callable[[pa.DataType], Convert]:
    def make(wanted: pa.DataType) -> Convert:
        def convert(value: Any) -> Any:
            if type(value) is not str:
                raise ValueError("no text")
            return parse(value, wanted)

        return convert

    return make


def _float(wanted: pa.DataType) -> Convert:
    is_double = pa.types.is_float64(wanted)

    def convert(value: Any) -> float:
        if type(value) in (int, NumberText):
            return float(value) if is_double else parse_float(str(value), wanted)
        if type(value) is str:
            return parse_float(value, wanted)
        raise ValueError("no number")

    return convert


def _decimal(wanted: pa.DataType) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) in (int, NumberText, str):
            return parse_decimal(str(value), wanted)
        raise ValueError("no number")

    return convert


def _counted(parse: Callable[[str, pa.DataType], Any]) -> Callable[[pa.DataType], Convert]:
    """Return a converter for times and dates: text in the given form, numbers as counts of the
    unit."""

    def make(wanted: pa.DataType) -> Convert:
        def convert(value: Any) -> Any:
            if type(value) is str:
                return parse(value, wanted)
            if type(value) is int:
                return value
            if type(value) is NumberText:
                return math.trunc(float(value))
            raise ValueError("no time")

        return convert

    return make


def _only(kind: type) -> Callable[[pa.DataType], Convert]:
    def make(_: pa.DataType) -> Convert:
        def convert(value: Any) -> Any:
            if type(value) is not kind:
                raise ValueError("other kind of value")
            return value

        return convert

    return make


def _hexadecimal(_: pa.DataType) -> Convert:
    def convert(value: Any) -> bytes:
        if type(value) is not str:
            raise ValueError("bytes are written as hexadecimal text")
        return bytes.fromhex(value)

    return convert


def _nothing(wanted: pa.DataType) -> Convert:
    def convert(_: Any) -> None:
        raise ValueError(f"only {wanted}")

    return convert


def _struct(wanted: pa.DataType, column: str, how: How) -> Convert:
    members = [(wanted.field(at), at) for at in range(wanted.num_fields)]
    parts = [(f.name, f.nullable, converter(f.type, column=column, how=how)) for f, _ in members]

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise ValueError("no object")
        return {name: _member(value.get(name), optional, part) for name, optional, part in parts}

    return convert


def _list(wanted: pa.DataType, column: str, how: How) -> Convert:
    optional = wanted.value_field.nullable
    part = converter(wanted.value_type, column=column, how=how)

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise ValueError("no array")
        return [_member(item, optional, part) for item in value]

    return convert


def _map(wanted: pa.DataType, column: str, how: How) -> Convert:
    key, item = (
        converter(wanted.key_type, column=column, how=how),
        converter(wanted.item_type, column=column, how=how),
    )
    optional = wanted.item_field.nullable

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if type(value) is not dict:
            raise ValueError("no object")
        return [(key(k), _member(v, optional, item)) for k, v in value.items()]

    return convert


def _member(value: Any, optional: bool, convert: Convert) -> Any:
    if value is None:
        if not optional:
            raise ValueError("required")
        return None
    return convert(value)


def _is_fixed_list(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(wanted))


def _is_binary(wanted: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(wanted)
        or pa.types.is_large_binary(wanted)
        or pa.types.is_fixed_size_binary(wanted)
    )


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Convert]], ...] = (
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), _only(str)),
    (pa.types.is_boolean, _only(bool)),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _counted(parse_timestamp)),
    (pa.types.is_date, _counted(parse_date)),
    (pa.types.is_time, _counted(parse_time)),
    (_is_binary, _hexadecimal),
    (pa.types.is_null, _nothing),
)


def _type_of(value: Any) -> pa.DataType:
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if value in _INT64 else pa.float64()
        case NumberText():
            return pa.float64()
        case str():
            return pa.string()
        case list():
            item = pa.null()
            for element in value:
                item = _join(item, _type_of(element))
            return pa.list_(item)
        case _:
            return pa.struct([(key, _type_of(value[key])) for key in sorted(value)])


def _join(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that includes both; or text, in which case values other than text fail to be
    read."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_join(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        found = {one.field(at).name: one.field(at).type for at in range(one.num_fields)}
        for at in range(other.num_fields):
            field = other.field(at)
            found[field.name] = _join(found.get(field.name, pa.null()), field.type)
        return pa.struct(list(found.items()))
    return pa.string()
