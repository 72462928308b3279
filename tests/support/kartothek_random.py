"""Random columns, frames and predicates of Kartothek datasets, and what a predicate is true of."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pandas as pd

from odf_protocol.kartothek.predicates import Op, Term

Row = dict[str, Any]
TEXTS = (
    "",
    "a",
    "A",
    "b%2Fc",
    "%",
    "x=1",
    "quote'\"",
    "ü€\U0001f600",
    "a+b c",
    "None",
    "1",
    "z" * 90,
)
"""Texts that stay whole in the library's keys."""
MORE_TEXTS = (*TEXTS, "a/b", "/", "y" * 40_000)
FLOATS = (0.0, -0.0, 1.5, -1.5, 0.1, 1e300, 5e-324, float("inf"), float("-inf"))
DAYS = (date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31))
MOMENTS = (
    datetime(1700, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 2, 29),
    datetime(2024, 2, 29, 1, 2, 3, 4),
)


def _integers(bits: int, *, signed: bool) -> Callable[[random.Random], int]:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda chance: chance.choice([least, most, 0, 1, chance.randint(least, most)])


def _of(values: Sequence[Any]) -> Callable[[random.Random], Any]:
    return lambda chance: chance.choice(values)


def _single(chance: random.Random) -> float:
    return chance.choice([0.0, -0.0, 0.5, -2.25, float("inf"), float("-inf")])


KINDS: dict[str, tuple[str, Callable[[random.Random], Any]]] = {
    **{f"int{n}": (f"int{n}", _integers(n, signed=True)) for n in (8, 16, 32, 64)},
    **{f"uint{n}": (f"uint{n}", _integers(n, signed=False)) for n in (8, 16, 32, 64)},
    "float32": ("float32", _single),
    "float64": ("float64", _of(FLOATS)),
    "bool": ("bool", _of([True, False])),
    "text": ("object", _of(MORE_TEXTS)),
    "date": ("object", _of(DAYS)),
    "moment": ("datetime64[us]", _of(MOMENTS)),
    "fine": ("datetime64[ns]", _of(MOMENTS)),
    "zoned": ("datetime64[us, UTC]", _of([each.replace(tzinfo=UTC) for each in MOMENTS])),
    "binary": ("object", _of([b"", b"a", b"\xff", b"ab"])),
    "list": ("object", _of([[1], [-1, 2]])),
}
"""Type in a frame, and a value, by kind."""
IN_KEYS = {"text": TEXTS, "date": DAYS[1:3]}
NULLABLE = frozenset(
    {"float32", "float64", "text", "date", "moment", "fine", "zoned", "binary", "list"}
)
"""Kinds that a frame can have without a value. Integers with nulls become floats in pandas."""
PARTITIONABLE = ("int8", "int64", "uint64", "float64", "bool", "text", "date", "moment")
COMPARABLE = (*(kind for kind in KINDS if kind not in ("list", "binary", "zoned")),)
INDEXABLE = (*(kind for kind in COMPARABLE if kind != "moment"),)
"""Kinds whose index the library can update: of timestamps only those in nanoseconds."""
_HOLDS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQUAL: operator.eq,
    Op.NOT_EQUAL: operator.ne,
    Op.LESS: operator.lt,
    Op.LESS_EQUAL: operator.le,
    Op.GREATER: operator.gt,
    Op.GREATER_EQUAL: operator.ge,
    Op.IN: lambda value, known: value in known,
}


def frame_of(rows: Sequence[Row], kinds: dict[str, str]) -> pd.DataFrame:
    columns = {}
    for name, kind in kinds.items():
        values = [row[name] for row in rows]
        columns[name] = pd.Series(values, dtype=KINDS[kind][0])
    return pd.DataFrame(columns)


def some_value(chance: random.Random, kind: str, *, in_key: bool = False) -> Any:
    """In a key the texts stay whole, days are those the library can read there, and there are few
    values, so that partitions are few."""
    if in_key:
        few = random.Random(chance.randrange(3))
        return few.choice(IN_KEYS[kind]) if kind in IN_KEYS else KINDS[kind][1](few)
    return KINDS[kind][1](chance)


def predicate_of(
    chance: random.Random, kinds: dict[str, str], rows: Sequence[Row]
) -> list[list[Term]]:
    """A disjunction of conjunctions, with values that rows have and others."""
    names = [name for name, kind in kinds.items() if kind in COMPARABLE]
    return [
        [_term(chance, chance.choice(names), kinds, rows) for _ in range(chance.randint(1, 3))]
        for _ in range(chance.randint(1, 3))
    ]


def _term(chance: random.Random, name: str, kinds: dict[str, str], rows: Sequence[Row]) -> Term:
    op = chance.choice(list(_HOLDS))
    present = [row[name] for row in rows if row[name] is not None]
    present = [value for value in present if value == value]  # no NaN

    def value() -> Any:
        if present and chance.random() < 0.7:
            return chance.choice(present)
        return some_value(chance, kinds[name])

    return Term(
        name, op, [value() for _ in range(chance.randint(1, 3))] if op is Op.IN else value()
    )


def is_reliable(
    predicate: Sequence[Sequence[Term]],
    kinds: dict[str, str],
    rows: Sequence[Row],
    indexed: Collection[str],
) -> bool:
    """Whether the library answers as the format says. Its `!=` loses and finds nulls, it cannot
    order texts and dates with nulls among them, its NaN is above nothing, and a disjunction loses
    files that have nothing but null or NaN in a column of it that has an index."""

    def misleads(term: Term) -> bool:
        values = [row[term.column] for row in rows]
        has_gaps = any(value is None or value != value for value in values)
        is_lost = len(predicate) > 1 and term.column in indexed
        is_unordered = kinds[term.column] in ("text", "date")
        has_nan = any(value != value for value in values)
        if has_nan and term.op in (Op.GREATER, Op.GREATER_EQUAL):
            return True
        return term.op is Op.NOT_EQUAL or (has_gaps and (is_lost or is_unordered))

    return not any(misleads(term) for terms in predicate for term in terms)


def holds(predicate: Sequence[Sequence[Term]], row: Row) -> bool:
    """As SQL says: a null compares to nothing, and NaN is above all numbers."""

    def is_true(term: Term) -> bool:
        value = row[term.column]
        if value is not None and value != value:
            return term.op in (Op.NOT_EQUAL, Op.GREATER, Op.GREATER_EQUAL)
        return value is not None and bool(_HOLDS[term.op](value, term.value))

    return any(all(map(is_true, terms)) for terms in predicate)


def for_plateau(predicate: Sequence[Sequence[Term]]) -> list[list[tuple[str, str, Any]]]:
    return [[(term.column, str(term.op), term.value) for term in terms] for terms in predicate]
