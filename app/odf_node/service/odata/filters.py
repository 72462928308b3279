"""`$filter` and `$orderby` as SQL of the node's engine.

A text is cut into words by one expression without a choice to go back on, and read once from left
to right, to a depth and a number of words that are bounded.

Source: OData URL Conventions 4.01, "System Query Option $filter", "… $orderby"; ABNF.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odf_protocol.errors import BadInput
from odf_protocol.sql_text import quoted_name, quoted_text

from ..query.literals import clock_sql, day_sql, moment_sql
from .model import Property

MOST_WORDS = 500
DEEPEST = 50
MOST_DIGITS = 38
_WORD = re.compile(
    r"\s*(?:"
    r"(?P<text>'(?:[^']|'')*')"
    r"|(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))"
    r"|(?P<date>\d{4}-\d\d-\d\d)"
    r"|(?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?|-?INF\b|NaN\b)"
    r"|(?P<name>[A-Za-z_]\w*(?:/[A-Za-z_]\w*)*)"
    r"|(?P<sign>[(),])"
    r")",
    re.ASCII,
)
_COMPARE = {"eq": "=", "ne": "<>", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_NUMBERS = ("Edm.SByte", "Edm.Byte", "Edm.Int16", "Edm.Int32", "Edm.Int64", "Edm.Decimal")
_FLOATS = {"Edm.Single": "REAL", "Edm.Double": "DOUBLE"}
_PARTS = ("year", "month", "day", "hour", "minute", "second")


class FilterWord(NamedTuple):
    kind: str
    text: str
    at: int


class TypedSql(NamedTuple):
    """A part of an expression in SQL, with its type; a literal may take the type of the other
    side."""

    sql: str
    type: str
    is_literal: bool = False
    far: int = 0
    """As that of a `MomentSql`."""


def not_in_filter(why: str) -> BadInput:
    """The expression is none that this feed reads."""
    return BadInput("InvalidFilter", why)


def words_of(text: str) -> list[FilterWord]:
    """Cut an expression into words. Raises `InvalidFilter`."""
    found: list[FilterWord] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _WORD.match(text, at, end)
        if match is None or len(found) == MOST_WORDS:
            why = "has no meaning" if match is None else f"is behind the first {MOST_WORDS} words"
            raise not_in_filter(f"what begins at character {at + 1} {why}: {text[at : at + 30]!r}")
        kind = match.lastgroup or ""
        found.append(FilterWord(kind, match[kind], match.start(kind)))
        at = match.end()
    return found


def filter_sql(text: str, properties: Mapping[str, Property]) -> str:
    """Return the condition of `$filter` in SQL. Raises `InvalidFilter`."""
    reader = _Reader(words_of(text), properties)
    condition = reader.either(0)
    reader.end()
    return _condition(condition)


def order_sql(text: str, properties: Mapping[str, Property]) -> list[str]:
    """Return the parts of `$orderby` in SQL: nulls are lowest. Raises `InvalidFilter`."""
    reader = _Reader(words_of(text), properties)
    parts = []
    while True:
        value = reader.column()
        word = reader.next_of("asc", "desc")
        how = "DESC NULLS LAST" if word == "desc" else "ASC NULLS FIRST"
        parts.append(f"{value.sql} {how}")
        if not reader.takes(","):
            reader.end()
            return parts


@dataclass
class _Reader:
    """Reads words from left to right."""

    words: Sequence[FilterWord]
    properties: Mapping[str, Property]
    at: int = 0

    def either(self, depth: int) -> TypedSql:
        return self._joined("or", self.both, depth)

    def both(self, depth: int) -> TypedSql:
        return self._joined("and", self.negated, depth)

    def _joined(self, word: str, part: Callable[[int], TypedSql], depth: int) -> TypedSql:
        first = part(depth)
        conditions = [first]
        while self.next_of(word):
            conditions.append(part(depth))
        if len(conditions) == 1:
            return first
        joined = f" {word.upper()} ".join(map(_condition, conditions))
        return TypedSql(f"({joined})", "Edm.Boolean")

    def negated(self, depth: int) -> TypedSql:
        _check(depth)
        if self.next_of("not"):
            return TypedSql(f"(NOT {_condition(self.negated(depth + 1))})", "Edm.Boolean")
        return self.compared(depth)

    def compared(self, depth: int) -> TypedSql:
        left = self.operand(depth)
        word = self.next_of(*_COMPARE, "in")
        if word is None:
            return left
        if word == "in":
            self.expect("(")
            each = [_equal(left, item) for item in self.arguments(depth)]
            return TypedSql(f"({' OR '.join(each) or 'FALSE'})", "Edm.Boolean")
        right = self.operand(depth)
        if word in ("eq", "ne"):
            told = _equal(left, right)
            return TypedSql(told if word == "eq" else f"(NOT {told})", "Edm.Boolean")
        return TypedSql(_ordered(left, word, right), "Edm.Boolean")

    def column(self) -> TypedSql:
        """Read a property by whose values rows are put in order."""
        word = self.take()
        if word.kind != "name" or "/" in word.text:
            raise not_in_filter(f"rows are put in order by columns, not by {word.text[:50]!r}")
        return self._path(word)

    def operand(self, depth: int) -> TypedSql:
        _check(depth)
        word = self.take()
        if word.text == "(" and word.kind == "sign":
            value = self.either(depth + 1)
            self.expect(")")
            return value
        if word.kind != "name":
            return _literal(word)
        if self.takes("("):
            return self._called(word, self.arguments(depth + 1))
        if word.text in ("null", "true", "false"):
            kind = "null" if word.text == "null" else "Edm.Boolean"
            return TypedSql(word.text.upper(), kind, is_literal=True)
        return self._path(word)

    def arguments(self, depth: int) -> list[TypedSql]:
        found: list[TypedSql] = []
        while not self.takes(")"):
            if found:
                self.expect(",")
            found.append(self.either(depth))
        return found

    def _path(self, word: FilterWord) -> TypedSql:
        names = word.text.split("/")
        known, sql = self.properties, ""
        found: Property | None = None
        for name in names:
            found = known.get(name)
            if found is None:
                raise not_in_filter(f"there is no property {word.text[:100]!r}")
            sql = _member(sql, found.column)
            known = {each.name: each for each in found.members}
            if found.type.startswith("Collection("):
                raise not_in_filter(f"{word.text[:100]} has many values; ask by SQL of /query")
        if found is None or not found.is_plain:
            raise not_in_filter(f"{word.text[:100]} has members: name one of them")
        if found.type == "Edm.TimeOfDay":  # the engine compares equal units only
            sql = f"arrow_cast({sql}, 'Time64(ns)')"
        return TypedSql(sql, found.type)

    def _called(self, word: FilterWord, given: Sequence[TypedSql]) -> TypedSql:
        function = _FUNCTIONS.get(word.text)
        if function is None:
            known = ", ".join(sorted(_FUNCTIONS))
            raise not_in_filter(f"there is no function {word.text[:50]!r} here; known are {known}")
        kinds, result, template = function
        if len(given) != len(kinds):
            raise not_in_filter(f"{word.text} takes {len(kinds)} arguments, not {len(given)}")
        for kind, value in zip(kinds, given, strict=True):
            if value.type not in (*kind.split(), "null"):
                raise not_in_filter(f"{word.text} does not take {value.type}")
        result = given[0].type if result == _SAME else result
        return TypedSql(template.format(*(value.sql for value in given)), result)

    def take(self) -> FilterWord:
        if self.at == len(self.words):
            raise not_in_filter("the expression ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def next_of(self, *names: str) -> str | None:
        """Take the next word if it is one of these."""
        if self.at < len(self.words) and self.words[self.at].text in names:
            self.at += 1
            return self.words[self.at - 1].text
        return None

    def takes(self, sign: str) -> bool:
        return self.next_of(sign) is not None

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            raise not_in_filter(f"{sign!r} is missing behind word {self.at}")

    def end(self) -> None:
        if self.at < len(self.words):
            word = self.words[self.at]
            raise not_in_filter(f"{word.text[:30]!r} at character {word.at + 1} has no meaning")


def _check(depth: int) -> None:
    if depth > DEEPEST:
        raise not_in_filter(f"it is nested more than {DEEPEST} levels deep")


def _member(outer: str, column: str) -> str:
    if outer:
        return f"get_field({outer}, {quoted_text(column)})"
    return quoted_name(column)


def _literal(word: FilterWord) -> TypedSql:
    match word.kind:
        case "text":
            return TypedSql(word.text, "Edm.String", is_literal=True)
        case "number":
            kind = "Edm.Decimal" if re.fullmatch(r"-?[\d.]+", word.text) else "Edm.Double"
            return TypedSql(word.text, kind, is_literal=True)
    try:
        match word.kind:
            case "moment":
                moment = moment_sql(word.text)
                return TypedSql(moment.sql, "Edm.DateTimeOffset", far=moment.far)
            case "date":
                return TypedSql(day_sql(word.text), "Edm.Date")
            case "time":
                return TypedSql(clock_sql(word.text), "Edm.TimeOfDay")
    except ValueError as bad:
        raise not_in_filter(str(bad)) from None
    raise not_in_filter(f"{word.text[:30]!r} at character {word.at + 1} has no meaning")


def _sides(left: TypedSql, right: TypedSql) -> tuple[str, str]:
    """Return both sides in SQL, literals with the type of the other side. Raises
    `InvalidFilter`."""
    return _as(left, right), _as(right, left)


def _as(value: TypedSql, other: TypedSql) -> str:
    numbers = (*_NUMBERS, *_FLOATS)
    is_number = value.type in numbers
    if is_number != (other.type in numbers) or not (is_number or value.type == other.type):
        raise not_in_filter(f"{value.type} is compared with {other.type}")
    if not (value.is_literal and is_number):
        return value.sql
    kind = _FLOATS.get(other.type) or _FLOATS.get(value.type)
    if kind is not None:
        return f"CAST('{value.sql.replace('INF', 'inf')}' AS {kind})"
    digits = sum(one.isdigit() for one in value.sql)
    if digits > MOST_DIGITS:
        raise not_in_filter(f"a number has {MOST_DIGITS} digits at most")
    scale = len(value.sql.partition(".")[2])
    return f"CAST('{value.sql}' AS DECIMAL({MOST_DIGITS}, {scale}))"


def _equal(left: TypedSql, right: TypedSql) -> str:
    """Return the comparison in SQL: null equals null, and nothing else."""
    for one, other in ((left, right), (right, left)):
        if one.type == "null":
            return f"({other.sql} IS NULL)"
    first, second = _sides(left, right)
    if left.far or right.far:
        return f"coalesce({first} = {second}, FALSE)"
    return f"({first} IS NOT DISTINCT FROM {second})"


def _ordered(left: TypedSql, word: str, right: TypedSql) -> str:
    """Return the comparison in SQL: null and NaN are neither greater nor less."""
    if "null" in (left.type, right.type):
        return "FALSE"
    one, other = _sides(left, right)
    told = f"{one} {_COMPARE[word]} {other}"
    floats = [sql for value, sql in ((left, one), (right, other)) if value.type in _FLOATS]
    told += "".join(f" AND NOT isnan({sql})" for sql in floats)
    is_met = (right.far - left.far) * (1 if word in ("lt", "le") else -1) > 0
    nearer = one if right.far else other
    return f"coalesce({told}, {f'{nearer} IS NOT NULL' if is_met else 'FALSE'})"


def _condition(value: TypedSql) -> str:
    if value.type not in ("Edm.Boolean", "null"):
        raise not_in_filter(f"a condition is true or false, and not {value.type}")
    return value.sql if value.type == "Edm.Boolean" else "CAST(NULL AS BOOLEAN)"


_SAME = "the type of the argument"
_TEXT, _BOOL, _INT = "Edm.String", "Edm.Boolean", "Edm.Int32"
_DAYS, _CLOCKS = "Edm.Date Edm.DateTimeOffset", "Edm.TimeOfDay Edm.DateTimeOffset"
_REAL = "Edm.Decimal Edm.Double Edm.Single"


def _parts() -> Iterator[tuple[str, tuple[tuple[str, ...], str, str]]]:
    for name in _PARTS:
        kinds = _DAYS if name in ("year", "month", "day") else _CLOCKS
        yield name, ((kinds,), _INT, f"CAST(floor(date_part('{name}', {{0}})) AS INT)")


_FUNCTIONS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "contains": ((_TEXT, _TEXT), _BOOL, "(strpos({0}, {1}) > 0)"),
    "startswith": ((_TEXT, _TEXT), _BOOL, "starts_with({0}, {1})"),
    "endswith": ((_TEXT, _TEXT), _BOOL, "ends_with({0}, {1})"),
    "length": ((_TEXT,), _INT, "character_length({0})"),
    "tolower": ((_TEXT,), _TEXT, "lower({0})"),
    "toupper": ((_TEXT,), _TEXT, "upper({0})"),
    "trim": ((_TEXT,), _TEXT, "trim({0})"),
    "concat": ((_TEXT, _TEXT), _TEXT, "({0} || {1})"),
    "floor": ((_REAL,), _SAME, "floor({0})"),
    "ceiling": ((_REAL,), _SAME, "ceil({0})"),
    **dict(_parts()),
}
"""Types of the arguments, type of the result, and SQL, by name."""
