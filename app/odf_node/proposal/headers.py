"""Which lines of a CSV file name its columns, and which repeat the header or give units.

Records of a sample as columns: names, the values as the file has them, and how it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStep
from odf_protocol.sources.csv_header import HeaderMismatch, distinct_names, match

from ..client.nodes.limits import one_line
from .values import guess, is_word_for_nothing

MAX_COLUMNS = 2_000
MAX_CELLS = 4_000_000
"""Limit of rows times columns that are examined."""


class NoRecords(BadInput):
    """A sample without a record that can be examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Columns by name; values are texts (CSV) or JSON values, and None is a missing value. There
    are no columns of files whose reader alone knows them."""

    names: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...]
    content: bytes | Path
    """These records, as the file has them, for the reader."""
    is_whole: bool
    """Whether these are all records of the file."""
    step: ReadStep
    """How they are read, without a schema."""
    types: pa.Schema = pa.schema([])  # noqa: RUF009 - it cannot change
    """The columns of a file that says its types."""
    groups: tuple[int, ...] | None = None
    """Row groups of a Parquet file that are looked at; None: all."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the source (`sources/source_options.py`) that are needed to read them."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of columns, from a line below the header."""
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.columns[0]) if self.columns else 0


SHOWN_NAMES = 5
JUDGED_ROWS = 1_000
YEARS = range(1000, 3000)
_LABEL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_FIGURES = re.compile(r"[+-]?[0-9][0-9.,' ]*(?:[eE][+-]?[0-9]+)?")
"""A number in digits, also one that no column of numbers keeps."""
_MEASURE = re.compile(r"[-+−–<>≤≥~≈(]{0,2}\s?\d[\d.,]*\s?\S{0,3}\)?")
"""A number with a sign of its own, as in `12 km`, `<5` and `7*`: a value, and no unit or name."""
FEWEST_ROWS = 3
"""Rows of which one may be told from the others by its types."""
TOTALS = frozenset(
    {
        *("total", "totals", "grand total", "subtotal", "sum", "summe", "gesamt", "insgesamt"),
        *("totale", "suma", "somme", "totaal", "average", "mean"),
    }
)
"""Words at the beginning of a line of sums below a table."""
Row = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHeader:
    """The names of the columns; `by_position` means that the names in the file do not tell which
    column is which."""

    names: tuple[str, ...]
    is_there: bool
    by_position: bool = False
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


def header_of(rows: Sequence[Row], wanted: bool | None) -> FileHeader:
    """Decide whether the first of these rows, at least one, is a header. `wanted` is what a person
    says."""
    first, rest = rows[0], rows[1:JUDGED_ROWS]
    there, notes, questions = wanted is True, list[str](), tuple[str, ...]()
    if wanted is None:
        there, doubt, questions = _judged(first, rest)
        if doubt:
            notes.append(doubt)
    if not there:
        names = tuple(f"column_{at}" for at in range(1, len(first) + 1))
        if wanted is None and not questions:
            notes.append("no line names the columns (--header takes the first one for the names)")
        return FileHeader(names=names, is_there=False, notes=tuple(notes), questions=questions)
    names = distinct_names(first)
    notes += [
        f"column {at} is called {cell!r} in the header, and {name!r} here"
        for at, (cell, name) in enumerate(zip(first, names, strict=True), 1)
        if name != cell
    ]
    return FileHeader(
        names=names, is_there=True, by_position=not _finds(first, names), notes=tuple(notes),
        questions=questions,
    )  # fmt: skip


def units_below(header: Row, rows: Sequence[Row]) -> bool:
    """Whether the first of these rows has units: text, or nothing, above numbers and times."""
    if len(rows) < 3 or list(rows[0]) == list(header):
        return False
    first, rest = rows[0], rows[1:JUDGED_ROWS]
    typed = [at for at in range(len(first)) if _kind(rest, at) not in (None, "String")]
    named = [at for at in typed if first[at].strip()]
    others = [at for at in range(len(first)) if at not in typed]
    return (
        bool(named)
        and all(header[at].strip() for at in named)  # else they may be the names
        and all(guess("", [first[at].strip()]).type == "String" for at in named)
        and not any(first[at].strip()[0].isdigit() for at in named)  # 12 km is a value
        and not any(is_word_for_nothing(first[at]) for at in named)
        and not any(first[at].strip() for at in others)
    )


def names_below(header: Row, rows: Sequence[Row]) -> bool:
    """Whether the first of these rows with a text rather has the names: all its cells are words,
    above other values or below few names, and the supposed header lacks names or is a comment."""
    rows = rows[next((at for at, row in enumerate(rows) if any(map(str.strip, row))), 0) :]
    if len(rows) < 3 or not header[0].strip():
        return False
    blank = [at for at, cell in enumerate(header) if not cell.strip()]
    first, rest = [cell.strip() for cell in rows[0]], rows[1:]
    if not (blank or header[0].lstrip().startswith("#")) or len(set(first)) < len(first):
        return False
    words = all(cell and guess("", [cell]).type == "String" for cell in first)
    return words and (2 * len(blank) >= len(header) or differs_from(first, rest))


def may_name_columns(header: Row, rows: Sequence[Row]) -> bool:
    """Whether the first of these rows may be a second header: it repeats a name above it,
    or has nothing but words for nothing, as no other row has."""
    if len(rows) < FEWEST_ROWS:
        return False
    first, *others = rows
    names = [cell.strip().casefold() for cell in header]
    below = [cell.strip().casefold() for cell in first]
    alike = [name for name, cell in zip(names, below, strict=True) if name == cell]
    repeats = any(len(name) > 2 and name[0].isalpha() for name in alike)
    return repeats or (_is_empty(first) and not any(map(_is_empty, others[:JUDGED_ROWS])))


def _is_empty(row: Row) -> bool:
    """Whether a row has words for nothing, and nothing else."""
    return any(map(str.strip, row)) and all(
        is_word_for_nothing(cell) for cell in row if cell.strip()
    )


def differs_from(row: Row, others: Sequence[Row]) -> bool:
    """Whether a row has text where these others have nothing but numbers, dates or times, or begins
    with a word for a sum, or with nothing where all others have something."""
    if len(others) + 1 < FEWEST_ROWS:
        return False
    if row[0].strip().rstrip(":").casefold() in TOTALS:
        return True
    if not row[0].strip() and all(one[0].strip() for one in others):
        return True
    words = [at for at, cell in enumerate(row) if cell.strip() and not is_word_for_nothing(cell)]
    texts = [at for at in words if guess("", [row[at].strip()]).type == "String"]
    texts = [at for at in texts if not _MEASURE.fullmatch(row[at].strip())]
    texts = [at for at in texts if not _FIGURES.fullmatch(row[at].strip())]
    some = others[:JUDGED_ROWS]
    return any(_kind(some, at) not in (None, "String") for at in texts)


def _judged(first: Row, rest: Sequence[Row]) -> tuple[bool, str, tuple[str, ...]]:
    """Return whether the first row is a header, a remark if nothing but its texts tells it, and
    questions."""
    cells = [cell.strip() for cell in first]
    named = [cell for cell in cells if cell]
    if not named:
        return False, "", ()
    kinds = [_kind(rest, at) for at in range(len(cells))]
    own = [guess("", [cell]).type if cell else None for cell in cells]
    differs = any(
        kind not in (None, "String") and mine == "String" and not is_word_for_nothing(cell)
        for kind, mine, cell in zip(kinds, own, cells, strict=True)
    )
    values = [at for at, mine in enumerate(own) if mine not in (None, "String")]
    shown = one_line(", ".join(cells[:SHOWN_NAMES]), 80)
    repeats = len({cell.casefold() for cell in named}) < len(named)
    taken = (
        f"the first line is taken for the names of the columns: {shown} (--no-header; --skip 1 if "
        "it is a title)"
    )
    if not values:
        if differs:
            return True, taken if len(cells) == 1 else "", ()  # of one column it may be a title
        if repeats:
            asked = f"does the first line ({shown}) hold the names of the columns? (--header or "
            return True, "", (asked + "--no-header)",)
        return True, taken if rest else "", ()
    if _are_labels([cells[at] for at in values], [kinds[at] for at in values], own, rest, values):
        return True, f"the first line is taken for the names of the columns: {shown}", ()
    if differs or (len(values) < len(named) and _count_up([cells[at] for at in values])):
        asked = f"does the first line ({shown}) hold the names of the columns? (--header or "
        return differs, "", (asked + "--no-header)",)
    return False, "", ()


def _are_labels(
    cells: Sequence[str],
    kinds: Sequence[str | None],
    own: Sequence[str | None],
    rest: Sequence[Row],
    at: Sequence[int],
) -> bool:
    """Whether values in the first row are labels of their columns: dates or years that differ,
    above values of another kind."""
    if len(set(cells)) < len(cells) or not rest:
        return False
    if all(own[place] in ("Date", "Timestamp") for place in at):
        return all(kind not in ("Date", "Timestamp", None) for kind in kinds)
    if not all(own[place] == "Int64" and int(cells[i]) in YEARS for i, place in enumerate(at)):
        return _is_pandas(cells, own, at)
    below = [row[place].strip() for row in rest for place in at if row[place].strip()]
    return any(not (text.isdecimal() and int(text[:9]) in YEARS) for text in below)


def _is_pandas(cells: Sequence[str], own: Sequence[str | None], at: Sequence[int]) -> bool:
    """Whether the row is what pandas writes above an index, if the columns have no names: a blank,
    and numbers from 0."""
    numbers = [str(number) for number in range(len(cells))]
    return own[0] is None and list(cells) == numbers and len(at) == len(own) - 1


def _count_up(cells: Sequence[str]) -> bool:
    """Whether the values are numbers in even steps, as labels are."""
    if not all(_LABEL.fullmatch(cell) for cell in cells):
        return False
    steps = {Decimal(after) - Decimal(one) for one, after in pairwise(cells)}
    return len(cells) > 1 and len(steps) == 1 and steps != {0}


def _kind(rows: Sequence[Row], at: int) -> str | None:
    """Return the type of a column below the first row; None if it has no values."""
    texts = [row[at].strip() for row in rows]
    some = [text for text in texts if text and not is_word_for_nothing(text)]
    return guess("", some).type if some else None


def _finds(header: Row, names: Sequence[str]) -> bool:
    """Whether the reader finds the columns by the header."""
    try:
        return match(header, names).in_order
    except HeaderMismatch:
        return False
