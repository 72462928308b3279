"""Decisions of a person about a proposal, and the one table of them: command, form and Python offer
what it lists.

An option is given as text, number, list or mapping, by its name; `chosen` checks all of them and
makes `Choices`. An option that is absent, None or empty leaves the decision to the proposal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, get_args

from odf_protocol.errors import BadInput
from odf_storage.datasets.job_payloads.ingest_job import OnBadRows

from .sample import TEXT, SampleFormat

MERGES = ("append", "ledger", "snapshot", "upsert")
NONE = ""
"""Value of an event time or a path that a person declines."""


class DateOrder(StrEnum):
    """Whether the day or the month is first in numeric dates."""

    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"


class Kind(StrEnum):
    """The form of an option's value."""

    TEXT = "text"
    COUNT = "count"
    """A whole number from 0."""
    YES_NO = "yes-no"
    CHOICE = "choice"
    WORDS = "words"
    """Several texts."""
    TYPES = "types"
    """Names of columns, and the type of each."""
    COLUMN = "column"
    """A column, or none."""
    COLUMNS = "columns"
    """Several columns, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Decisions of a person; None leaves the decision to the proposal."""

    name: str | None = None
    description: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    event_time: str | None = None
    """Name of a column; an empty name means none, so that rows get the time of their post."""
    merge: str | None = None
    date_order: DateOrder | None = None
    separator: str | None = None
    quote: str | None = None
    escape: str | None = None
    header: bool | None = None
    skip: int | None = None
    units: int | None = None
    footer: int | None = None
    null: tuple[str, ...] = ()
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    time_zone: str | None = None
    path: str | None = None
    sheet: str | None = None
    on_bad_rows: OnBadRows = "fail"

    @property
    def sets_aside(self) -> bool:
        """Whether bad rows are kept apart instead of failing the file."""
        return self.on_bad_rows == "quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option: the field of `Choices`, what it decides, and the formats that have it."""

    name: str
    kind: Kind
    about: str
    values: tuple[str, ...] = ()
    """The values of a choice."""
    formats: frozenset[SampleFormat] = frozenset(SampleFormat)
    label: str = ""
    """Its name in the form; empty if the form asks for it in another way, beside its columns."""
    without: str = ""
    """What becomes of the rows if no column is chosen."""

    @property
    def flag(self) -> str:
        """Its name on the command line, where `types` is given column by column."""
        return "--" + ("type" if self.name == "types" else self.name.replace("_", "-"))


_CSV = frozenset({SampleFormat.CSV})
_DOCUMENTS = frozenset({SampleFormat.JSON, SampleFormat.SHAPEFILE})
_NUMBERS = "Numbers are written with it between"

OPTIONS = (
    Option(name="types", kind=Kind.TYPES, about="Type of a column; repeatable."),
    Option(name="key", kind=Kind.COLUMNS, about="Tells rows apart; repeatable.",
           without="Each post adds its rows."),
    Option(name="event_time", kind=Kind.COLUMN, about="When a row happened.",
           without="Rows get the time of their post."),
    Option(name="merge", kind=Kind.CHOICE, values=MERGES, about="How later posts join the rows."),
    Option(
        name="date_order", kind=Kind.CHOICE, values=("dmy", "mdy"), formats=TEXT,
        label="In dates of figures, the first is the day (dmy) or the month (mdy)",
        about="Whether 01/02/2025 is in February (dmy) or January (mdy).",
    ),
    Option(
        name="separator", kind=Kind.TEXT, formats=_CSV, label="Separator of fields",
        about="What separates fields; `tab` is one.",
    ),
    Option(
        name="quote", kind=Kind.TEXT, formats=_CSV, label="Quote around fields",
        about="What is around fields that hold separators; by default \".",
    ),
    Option(
        name="escape", kind=Kind.TEXT, formats=_CSV, label="Escape before quotes",
        about="What escapes a quote inside of quotes; by default, and by `none`, they are doubled.",
    ),
    Option(
        name="header", kind=Kind.YES_NO, formats=_CSV, label="The first line holds the names",
        about="Whether the first line holds the names of the columns.",
    ),
    Option(
        name="skip", kind=Kind.COUNT, formats=_CSV, label="Lines before the header",
        about="Lines left out at the beginning: titles.",
    ),
    Option(
        name="units", kind=Kind.COUNT, formats=_CSV, label="Lines of units after the header",
        about="Lines left out after the header: units.",
    ),
    Option(
        name="footer", kind=Kind.COUNT, formats=_CSV, label="Lines after the last row",
        about="Lines left out at the end: sums, sources.",
    ),
    Option(
        name="null", kind=Kind.WORDS, formats=TEXT, label="Words for no value, in all columns",
        about="A word that stands for no value, in columns of text, too; repeatable.",
    ),
    Option(
        name="decimal", kind=Kind.CHOICE, values=(".", ","), formats=TEXT, label="Decimal sign",
        about=f"{_NUMBERS} whole and fraction.",
    ),
    Option(
        name="thousands", kind=Kind.CHOICE, values=(",", ".", "'", "_", "blank"), formats=TEXT,
        label="Sign between thousands", about=f"{_NUMBERS} groups of three digits.",
    ),
    Option(
        name="encoding", kind=Kind.TEXT, formats=TEXT, label="Encoding of the text",
        about="Encoding of the text, such as windows-1252; by default UTF-8.",
    ),
    Option(
        name="time_zone", kind=Kind.TEXT, formats=TEXT, label="Zone of times without one",
        about="Zone of times that name none, such as Europe/Berlin; by default UTC.",
    ),
    Option(
        name="path", kind=Kind.TEXT, formats=_DOCUMENTS, label="Path of the records",
        about="Where the records are: keys with dots between them, or the .shp of an archive.",
    ),
    Option(
        name="sheet", kind=Kind.TEXT, formats=_CSV, label="Sheet of the workbook",
        about="The sheet of a workbook; needed if several sheets have values.",
    ),
    Option(
        name="on_bad_rows", kind=Kind.CHOICE, values=get_args(OnBadRows),
        label="Rows that do not fit",
        about="Refuse the file for a bad row (default), or keep the bad ones apart.",
    ),
    Option(name="description", kind=Kind.TEXT, about="What the dataset is about."),
)  # fmt: skip
BY_NAME = {option.name: option for option in OPTIONS}
_SPELLED = {
    "separator": {"tab": "\t", "\\t": "\t", "blank": " "},
    "escape": {"none": ""},
    "thousands": {"blank": " "},
}
"""Values that a person spells out."""


def chosen(given: Mapping[str, Any], *, name: str | None = None) -> Choices:
    """Return the choices of the given options. Raises `UnusableOption`."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        option = BY_NAME.get(key)
        if option is None:
            known = ", ".join(BY_NAME)
            raise BadInput(
                "UnusableOption", f"there is no option {key[:50]!r}; options are {known}"
            )
        if value is None or (value in ("", ()) and option.kind not in _MAY_BE_NONE):
            continue
        found[key] = _VALUES[option.kind](option, value)
    return Choices(name=name, **found)


def advice(name: str, value: str) -> str:
    """Return an option with a value, as a person types them in a shell."""
    return f"{BY_NAME[name].flag} {shlex.quote(value)}"


_FLAG = re.compile(r"--(no-)?([a-z]{1,20}(?:-[a-z]{1,20}){0,3})(?![\w-])")
_BESIDE_COLUMNS = {
    "types": "Type",
    "key": "In the key",
    "event_time": "Time at which a row happened",
    "merge": "Later posts",
    "description": "What it is about",
}
"""Names of the form's fields for options without a label."""
_BY_FLAG = {option.flag.removeprefix("--"): option for option in OPTIONS}


def in_form(text: str) -> str:
    """Return a remark with the fields of the form in the place of options of the command."""

    def field_of(option: Option, decline: bool) -> str:
        label = f"“{option.label or _BESIDE_COLUMNS[option.name]}”"
        if option.kind is Kind.YES_NO:
            return f"{label} {'no' if decline else 'yes'}"
        return f"no {label}" if decline else label

    return _spoken(text, field_of)


def in_python(text: str) -> str:
    """Return a remark with the arguments of `odf_node.publish` in the place of options of the
    command."""

    def argument_of(option: Option, decline: bool) -> str:
        if option.kind is Kind.YES_NO:
            return f"{option.name}={not decline}"
        nothing = "()" if option.kind is Kind.COLUMNS else '""'
        return f"{option.name}={nothing}" if decline else option.name

    return _spoken(text, argument_of)


def _spoken(text: str, way: Callable[[Option, bool], str]) -> str:
    def said(found: re.Match[str]) -> str:
        option = _BY_FLAG.get(found[2])
        return found[0] if option is None else way(option, bool(found[1]))

    return _FLAG.sub(said, text)


def refuse_others(choices: Choices, form: SampleFormat) -> None:
    """Raise `UnusableOption` for an option that files of this format do not have: what it decides
    would be decided otherwise without a word."""
    for option in OPTIONS:
        if form not in option.formats and getattr(choices, option.name) not in (None, ()):
            known = ", ".join(sorted(one.value for one in option.formats))
            raise BadInput(
                "UnusableOption",
                f"{option.flag} decides nothing of a file of {form.value}, but of {known}",
                option=option.name,
            )


def _text(option: Option, value: Any) -> str:
    if not isinstance(value, str):
        raise _unusable(option, "a text")
    text = _SPELLED.get(option.name, {}).get(value, value)
    is_sign = option.name in ("separator", "quote", "escape")
    if is_sign and text and (len(text) != 1 or not text.isascii() or text in "\r\n"):
        raise _unusable(option, "one ASCII character")
    return " ".join(text.split()) if option.name == "description" else text


def _count(option: Option, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:9])
    if type(value) is not int or value < 0:
        raise _unusable(option, "a whole number from 0")
    return value


def _yes_no(option: Option, value: Any) -> bool:
    found = {"yes": True, "no": False}.get(value, value) if isinstance(value, str) else value
    if type(found) is not bool:
        raise _unusable(option, "yes or no")
    return found


def _choice(option: Option, value: Any) -> Any:
    if value not in option.values:
        raise _unusable(option, f"one of {', '.join(option.values)}")
    if option.name == "date_order":
        return DateOrder(value)
    return _text(option, value)


def _words(option: Option, value: Any) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise _unusable(option, "a list of texts")
    return tuple(words)


def _types(option: Option, value: Any) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        return dict(value)
    pairs = [text.rpartition("=") for text in _words(option, value)]
    if not all(name and mark for name, mark, _ in pairs):
        raise _unusable(option, "COLUMN=TYPE")
    return {name: kind for name, _, kind in pairs}


def _unusable(option: Option, wanted: str) -> BadInput:
    return BadInput("UnusableOption", f"{option.flag} takes {wanted}", option=option.name)


_MAY_BE_NONE = (Kind.COLUMN, Kind.COLUMNS)
_VALUES = {
    Kind.TEXT: _text,
    Kind.COUNT: _count,
    Kind.YES_NO: _yes_no,
    Kind.CHOICE: _choice,
    Kind.WORDS: _words,
    Kind.TYPES: _types,
    Kind.COLUMN: _text,
    Kind.COLUMNS: _words,
}
