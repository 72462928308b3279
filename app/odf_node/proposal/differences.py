"""What a file says and its rows would not: differences between given and stored values.

A type is guessed such that none remain. This comparison of all values is the proof, and names what
a person's choices, or the units of times, take away.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from ..client.text import one_line
from .values import keeps

_ZONE = re.compile(r"([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?|[A-Za-z]{1,32}/[\w/+-]{1,64})\s{0,8}$")
ZONE_CHARS = 60
_SHOWN = 40


def differences(
    name: str, given: Sequence[Any], stored: pa.ChunkedArray, *, zoned: bool
) -> Iterator[str]:
    """Yield remarks about one column: the values of its records, as texts or JSON values, and those
    stored, in the same order. Words for no value are given as None; `zoned` means that a person
    says the zone of times without one."""
    if pa.types.is_timestamp(stored.type):
        texts = [one for one in given if isinstance(one, str)]
        if not zoned and not all(_ZONE.search(text[-ZONE_CHARS:]) for text in texts):
            yield f"{name}: times without a zone are taken to be in UTC (--time-zone)"
        return  # the reader tells what it cuts
    odd = (
        (one, kept)
        for one, kept in zip(given, stored.to_pylist(), strict=True)
        if not _is_same(one, kept)
    )
    if (pair := next(odd, None)) is not None:
        one, kept = (one_line(str(each), _SHOWN) for each in pair)
        yield f"{name}: {one!r} in the file becomes {kept!r}"


def _is_same(given: Any, stored: Any) -> bool:
    """Whether a stored value says what the given one says."""
    if given is None or stored is None:
        return given is None and stored is None
    match stored:
        case bool():
            return str(given).lower() == str(stored).lower()
        case str():
            return _is_text(given, stored)
        case int():
            return str(given).strip().lstrip("+") == str(stored) or _number(given) == stored
        case float():
            return math.isnan(stored) or _keeps(given, stored)
        case Decimal():
            return _number(given) == stored
        case datetime() | date():
            return True  # the reader reads all of it, or refuses it
        case dict():
            return isinstance(given, dict) and all(
                _is_same(given.get(key), stored.get(key)) for key in {**given, **stored}
            )
        case list():
            return (
                isinstance(given, list)
                and len(given) == len(stored)
                and all(map(_is_same, given, stored))
            )
    return True


def _is_text(given: Any, stored: str) -> bool:
    return given == stored or not isinstance(given, str) or type(given) is not str


def _number(given: Any) -> Decimal | None:
    try:
        return Decimal(str(given).strip())
    except InvalidOperation:
        return None


def _keeps(given: Any, stored: float) -> bool:
    text = str(given).strip()
    if _number(text) is None:  # of another form, which the reader knows
        return True
    return keeps(text) and float(text) == stored
