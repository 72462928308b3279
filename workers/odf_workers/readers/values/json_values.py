"""Convert JSON values to typed columns, and infer their types.

A text in a column of another kind is converted as in every format (`text.py`), and so are the
digits of numbers: a fraction is no whole number, and no number becomes infinite. Columns of text
refuse numbers, except whole ones of more than 64 bits, which have no other type. Keys are
case-sensitive; a missing key is null, a surplus one is ignored. A number in a column of times
counts the unit that the source declares, else that of the column; a source may choose the rules of
other nodes (`JsonNumbers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import isinf
from typing import Any

import numpy as np
import pyarrow as pa

from odf_protocol.errors import BadInput
from odf_protocol.sources.source_options import JsonNumbers

from .forms import PLAIN, Forms, is_number, of_epoch
from .json_scan import NumberText, compact_json
from .recast import Losses, may_lose
from .text import (
    NO_DAYS,
    NO_MOMENTS,
    are_likely_days,
    cast_text,
    is_padded,
    likely_seconds,
    parse_float,
    parse_one,
)

Convert = Callable[[Any], Any]
_INT64 = range(-(2**63), 2**63)
_DIGITS = 38
_WIDE = pa.decimal128(_DIGITS, 0)
_NUMBERS = (pa.int64(), _WIDE, pa.float64())
"""Types of inferred numbers, each of which may become the next."""
_PLAIN: dict[type, Callable[[pa.DataType], bool]] = {
    int: pa.types.is_integer,
    str: lambda t: _is_text(t),
    bool: pa.types.is_boolean,
}


@dataclass(frozen=True, slots=True)
class ValueRules:
    """Rules for reading values. `exact` refuses a number as a time, and figures with leading zeros
    as a number, since the types were not declared."""

    exact: bool = False
    forms: Forms = PLAIN
    numbers: JsonNumbers = JsonNumbers.EXACT
    json_texts: frozenset[str] = frozenset()
    """Columns of text that hold any value as JSON."""
    losses: Losses = field(default_factory=Losses)


AS_DECLARED = ValueRules()


class JsonMisfit(ValueError):
    """A value that its column cannot contain; `index` is its row in the batch."""

    def __init__(self, index: int, value: object) -> None:
        super().__init__("misfit")
        self.index, self.value = index, value


def column_of(
    values: Sequence[Any],
    wanted: pa.DataType,
    convert: Convert,
    how: ValueRules = AS_DECLARED,
    *,
    column: str = "",
) -> pa.Array:
    """Convert the values of one column of a batch. Raises `JsonMisfit`."""
    try:
        if _already(values, wanted) and not how.forms.words(column, wanted):
            return pa.array(values, wanted)
        if _times_as_text(values, wanted):
            texts = how.forms.plain(pa.array(values, pa.string()), column, wanted)
            made = cast_text(texts, wanted)
            how.losses.met(column, texts, wanted)
            return made
        converted = [None if value is None else convert(value) for value in values]
        return pa.array(converted, wanted)
    except (ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
        raise _first_misfit(values, wanted, convert) from None


def converter(wanted: pa.DataType, *, column: str, how: ValueRules = AS_DECLARED) -> Convert:
    """Return the function that converts a JSON value to the form that `pa.array` accepts for the
    type. Raises `Unsupported`."""
    if pa.types.is_struct(wanted):
        return _struct(wanted, column, how)
    if pa.types.is_map(wanted):
        return _map(wanted, column, how)
    if pa.types.is_list(wanted) or pa.types.is_large_list(wanted) or _is_fixed_list(wanted):
        return _list(wanted, column, how)
    for matches, make in _SCALARS:
        if matches(wanted):
            return _with_texts(wanted, column, how, make(wanted, column, how))
    raise BadInput(
        "Unsupported", f"column `{column}`: JSON has no form for {wanted}", column=column
    )


def _with_texts(wanted: pa.DataType, column: str, how: ValueRules, others: Convert) -> Convert:
    """Return a converter of texts by the rules of all formats, and of other values by `others`."""
    if _is_binary(wanted) or pa.types.is_null(wanted):
        return others
    refuses = how.exact and pa.types.is_boolean(wanted)
    parse = _parser(wanted, column, how)
    padded = how.exact and not (_is_text(wanted) or pa.types.is_temporal(wanted))

    def convert(value: Any) -> Any:
        if type(value) is not str:
            return others(value)
        if refuses or (padded and is_padded(value)):
            raise ValueError("no such value")
        text = how.forms.plain_one(value, column, wanted)
        return None if text is None else parse(text)

    return convert


def _parser(wanted: pa.DataType, column: str, how: ValueRules) -> Callable[[str], Any]:
    """Return a function that parses texts, and notes what they lose. Raises `ValueError`."""

    def parse(text: str) -> Any:
        made = parse_one(text, wanted)
        if counts and is_padded(text):
            how.losses.met_padded(column)
        if loses:
            how.losses.met_one(column, text, wanted)
        return made

    loses, counts = may_lose(wanted), is_number(wanted)
    return parse


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


def _first_misfit(values: Sequence[Any], wanted: pa.DataType, convert: Convert) -> JsonMisfit:
    for index, value in enumerate(values):
        try:
            pa.array([None if value is None else convert(value)], wanted)
        except (ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
            return JsonMisfit(index, value)
    return JsonMisfit(0, None)


def _integer(_: pa.DataType, __: str, how: ValueRules) -> Convert:
    cuts = how.numbers is JsonNumbers.CUT

    def convert(value: Any) -> int:
        if type(value) is int:
            return value
        if type(value) is NumberText:
            return _whole(value, cuts=cuts)
        raise ValueError("no number")

    return convert


def _whole(number: NumberText, *, cuts: bool) -> int:
    """Return the whole number that a text with fraction or exponent stands for. Raises
    `ValueError`."""
    exact = Decimal(number)
    if exact.adjusted() > _DIGITS:
        raise ValueError("too large")
    whole = int(exact)
    if not cuts and whole != exact:
        raise ValueError("a fraction")
    return whole


def _float(wanted: pa.DataType, column: str, how: ValueRules) -> Convert:
    narrow: Any = {16: np.float16, 32: np.float32}.get(wanted.bit_width)

    def convert(value: Any) -> float:
        if type(value) not in (int, NumberText):
            raise ValueError("no number")
        text = str(value)
        if narrow is None:
            found = kept = float(text)
            if isinf(found):
                raise ValueError("too large")
        else:
            found = parse_float(text, wanted)
            kept = float(narrow(found))
        how.losses.met_float(column, text, kept, wanted)
        return found

    return convert


def _decimal(wanted: pa.DataType, column: str, how: ValueRules) -> Convert:
    parse = _parser(wanted, column, how)

    def convert(value: Any) -> Any:
        if type(value) in (int, NumberText):
            return parse(str(value))
        raise ValueError("no number")

    return convert


def _text(_: pa.DataType, __: str, how: ValueRules) -> Convert:
    takes_all = how.numbers is JsonNumbers.TEXT

    def convert(value: Any) -> str:
        if type(value) is int and (takes_all or value not in _INT64):
            return str(value)
        if type(value) is NumberText and takes_all:
            return str(value)
        if isinstance(value, dict | list) and takes_all:
            return compact_json(value)
        raise ValueError("no text")

    return convert


def _bool(_: pa.DataType, __: str, ___: ValueRules) -> Convert:
    def convert(value: Any) -> bool:
        if type(value) is not bool:
            raise ValueError("neither true nor false")
        return value

    return convert


def _counted(wanted: pa.DataType, column: str, how: ValueRules) -> Convert:
    """Return a converter of numbers to dates and times: they count days, or units."""
    cuts, unit = how.numbers is JsonNumbers.CUT, how.forms.epoch_of(column)
    has_pattern = how.forms.pattern(wanted) is not None
    is_moment, is_day = pa.types.is_timestamp(wanted), pa.types.is_date32(wanted)
    parse = _parser(wanted, column, how)

    def convert(value: Any) -> Any:
        if type(value) not in (int, NumberText):
            raise ValueError("no time")
        if unit is not None and is_moment:
            return parse(of_epoch(Decimal(value), unit))
        if (how.exact and not pa.types.is_time(wanted)) or has_pattern:
            raise ValueError("a number")
        count = value if type(value) is int else _whole(value, cuts=cuts)
        if is_moment and (reason := doubt_of(count, wanted)) is not None:
            raise ValueError(reason)
        if (is_day or is_moment) and not are_likely_days(count):
            how.losses.met_number(column, NO_DAYS if is_day else NO_MOMENTS.format(wanted.unit))
        return count

    return convert


def doubt_of(count: Any, wanted: pa.DataType) -> str | None:
    """Return why a number is probably no count of the unit of a column of times, but of a larger
    one: it then is of the years from 1973 on, and else of January 1970."""
    if type(count) is not int or not pa.types.is_timestamp(wanted):
        return None
    if count not in likely_seconds(wanted.unit):
        return None
    return (
        f"as a count of {wanted.unit} it is in January 1970; the attribute odf-node/epoch tells "
        "the unit of numbers"
    )


def _hexadecimal(_: pa.DataType, __: str, ___: ValueRules) -> Convert:
    def convert(value: Any) -> bytes:
        if type(value) is not str:
            raise ValueError("bytes are written as hexadecimal text")
        return bytes.fromhex(value)

    return convert


def _nothing(wanted: pa.DataType, _: str, __: ValueRules) -> Convert:
    def convert(_value: Any) -> None:
        raise ValueError(f"only {wanted}")

    return convert


def _struct(wanted: pa.DataType, column: str, how: ValueRules) -> Convert:
    members = [(wanted.field(at), at) for at in range(wanted.num_fields)]
    parts = [(f.name, f.nullable, converter(f.type, column=column, how=how)) for f, _ in members]
    names = frozenset(name for name, _, _ in parts)

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise ValueError("no object")
        if not names.issuperset(value):
            how.losses.met_left_out(column, value.keys() - names)
        return {name: _member(value.get(name), optional, part) for name, optional, part in parts}

    return convert


def _list(wanted: pa.DataType, column: str, how: ValueRules) -> Convert:
    optional = wanted.value_field.nullable
    part = converter(wanted.value_type, column=column, how=how)

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise ValueError("no array")
        return [_member(item, optional, part) for item in value]

    return convert


def _map(wanted: pa.DataType, column: str, how: ValueRules) -> Convert:
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
    converted = convert(value)
    if converted is None and not optional:  # a word of null
        raise ValueError("required")
    return converted


def _is_fixed_list(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(wanted))


def _is_binary(wanted: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(wanted)
        or pa.types.is_large_binary(wanted)
        or pa.types.is_fixed_size_binary(wanted)
    )


def _is_text(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_string(wanted) or pa.types.is_large_string(wanted))


def _is_time(wanted: pa.DataType) -> bool:
    return bool(
        pa.types.is_timestamp(wanted) or pa.types.is_date(wanted) or pa.types.is_time(wanted)
    )


_SCALARS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str, ValueRules], Convert]], ...
] = (
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (_is_text, _text),
    (pa.types.is_boolean, _bool),
    (pa.types.is_decimal, _decimal),
    (_is_time, _counted),
    (_is_binary, _hexadecimal),
    (pa.types.is_null, _nothing),
)
"""Converters of values that are no texts."""


def _type_of(value: Any) -> pa.DataType:
    match value:
        case None:
            return pa.null()
        case bool():
            return pa.bool_()
        case int():
            return _of_integer(value)
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


def _of_integer(value: int) -> pa.DataType:
    if value in _INT64:
        return pa.int64()
    return _WIDE if -(10**_DIGITS) < value < 10**_DIGITS else pa.float64()


def _join(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that includes both; or text, in which case values other than text fail to be
    read."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if one in _NUMBERS and other in _NUMBERS:
        return max(one, other, key=_NUMBERS.index)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_join(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        found = {one.field(at).name: one.field(at).type for at in range(one.num_fields)}
        for at in range(other.num_fields):
            field = other.field(at)
            found[field.name] = _join(found.get(field.name, pa.null()), field.type)
        return pa.struct(list(found.items()))
    return pa.string()
