"""Open attribute maps (`extra`): canonical JSON text, kept as it was received.

In blocks a map is one string: compact JSON, with keys in byte order at every level. Other writers
may spell numbers differently, so a received text is kept and never written anew.

A map has a limit of bytes, because parsing it takes up to forty times its text, and no other thread
runs meanwhile. Maps that writers are known to make have a few KiB.
Source: ODF "ExtraAttributes"; number spelling as current reference writers have it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..errors import BadInput

MAX_DEPTH = 64
MAX_BYTES = 1 << 20
"""Limit in bytes of the text of a map, in UTF-8."""


class MalformedAttributes(BadInput):
    """The text is not a JSON object or too long, or JSON cannot represent a value."""


class Attributes:
    """One attribute map. Maps are compared by their texts."""

    __slots__ = ("_value", "text")
    text: str

    def __init__(self, text: str) -> None:
        self._value: dict[str, Any] | None = None
        self.text = text

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Attributes:
        """Create attributes from a map, in canonical spelling. Raises `MalformedAttributes`."""
        made = cls(canonical_json(dict(value)))
        _check_length(made.text)
        return made

    @property
    def value(self) -> dict[str, Any]:
        """The parsed map. Raises `MalformedAttributes` if the text is not a JSON object or too
        long."""
        if self._value is None:
            self._value = _parse(self.text)
        return self._value

    def check(self) -> None:
        """Raise as `value` does, but keep no map: it takes up to forty times its text."""
        if self._value is None:
            _parse(self.text)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Attributes) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Attributes({self.text})"


def canonical_json(value: Any, depth: int = 0) -> str:
    """Return compact JSON: sorted keys, literal non-ASCII, floats with fraction or exponent."""
    if depth >= MAX_DEPTH and isinstance(value, dict | list | tuple):
        raise MalformedAttributes(f"attributes are nested deeper than {MAX_DEPTH}")
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            return _quoted(value)
        case int():
            if not -(2**63) <= value < 2**64:
                raise MalformedAttributes("an integer of an attribute map needs more than 64 bits")
            return str(value)
        case float():
            return _float_text(value)
        case dict():
            items = _sorted_items(value)
            parts = [f"{key}:{canonical_json(part, depth + 1)}" for key, part in items]
            return "{" + ",".join(parts) + "}"
        case list() | tuple():
            return "[" + ",".join([canonical_json(item, depth + 1) for item in value]) + "]"
    raise MalformedAttributes(f"JSON cannot carry a {type(value).__name__}")


def _sorted_items(value: dict[Any, Any]) -> list[tuple[str, Any]]:
    """Return quoted keys in the order of their UTF-8 bytes, with their values."""
    if not all(isinstance(key, str) for key in value):
        raise MalformedAttributes("the keys of an attribute map are text")
    quoted = {key: _quoted(key) for key in value}
    return [(quoted[key], value[key]) for key in sorted(value, key=str.encode)]


def _quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedAttributes("text with surrogates in an attribute map") from None
    return json.dumps(text, ensure_ascii=False)


def _check_length(text: str) -> None:
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise MalformedAttributes(f"an attribute map has more than {MAX_BYTES} bytes")


def _parse(text: str) -> dict[str, Any]:
    _check_length(text)
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        raise MalformedAttributes("attribute map is not JSON") from None
    if not isinstance(value, dict):
        raise MalformedAttributes("attribute map is not a JSON object")
    if text.count("{") + text.count("[") > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise MalformedAttributes(f"attributes are nested deeper than {MAX_DEPTH}")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def is_deeper(value: Any, depth: int) -> bool:
    """Return whether lists and maps are nested more than `depth` times."""
    level = [value]
    for _ in range(depth + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return False
        level = [
            part for item in level for part in (item.values() if isinstance(item, dict) else item)
        ]
    return True


def _float_text(value: float) -> str:
    """Return the shortest text that parses to the value: fixed for decimal exponents -5 to 15,
    otherwise like `1e+16`."""
    if not math.isfinite(value):
        raise MalformedAttributes("JSON has no infinity and no NaN")
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)  # finite, so the exponent is a number
    minus = "-" if sign else ""
    if -5 <= point - 1 <= 15:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        if point >= len(text):
            return f"{minus}{text}{'0' * (point - len(text))}.0"
        return f"{minus}{text[:point]}.{text[point:]}"
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{minus}{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"
