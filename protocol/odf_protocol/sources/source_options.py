"""Options of a source for reading its batches, beyond those of the specification: one table.

Options are attributes of the schema in the source's read step; some may also be attributes of one
of its columns. The chain carries them to every copy of the dataset, and nodes that do not know them
ignore them. A source that declares no schema has no options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from ..columns.column_names import MAX_UNIT_CHARS, UNIT_KEY
from ..errors import BadInput
from ..metadata.attributes import Attributes, MalformedAttributes
from ..metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)
from .time_patterns import offset_at

PREFIX = "odf-node/"
MAX_WORDS = 100
MAX_WORD_CHARS = 200
MAX_SKIPPED_LINES = 10_000
MAX_FOOTER_LINES = 1_000
MAX_UNIT_LINES = 10
MAX_SECONDS = 10_000 * 366 * 86_400
_NOON = datetime(2000, 1, 15, 12)
"""A time that no zone has twice or never."""


class HeaderRule(StrEnum):
    """How the header of a CSV file must relate to the declared names."""

    NAMES = "names"
    """Names decide which column is which, see `csv_header.py`. This is the default."""
    STRICT = "strict"
    """The header must have exactly the declared names in the declared order."""
    POSITION = "position"
    """The names in the header are ignored."""


class RetractionRule(StrEnum):
    """What happens to a changelog row that retracts a value which is not current."""

    REFUSE = "refuse"
    """The batch is refused. This is the default."""
    WARN = "warn"
    """The receipt has a warning."""


class RepeatedHeader(StrEnum):
    """What a line of a CSV file is that repeats the header."""

    ROW = "row"
    """A row like others. This is the default."""
    SKIP = "skip"
    """No row: files were joined. The receipt counts such lines."""


class JsonNumbers(StrEnum):
    """How JSON numbers become values of columns of another kind."""

    EXACT = "exact"
    """No number loses a part: fractions are no whole numbers. This is the default."""
    CUT = "cut"
    """Fractions are cut to whole numbers, as other nodes do."""
    TEXT = "text"
    """As by default, and columns of text take numbers as they are written, and objects and arrays
    as JSON."""


class ContentType(StrEnum):
    """What the type that a web server declares means."""

    CHECKED = "checked"
    """An answer of type text/html is a web page, no data. This is the default."""
    ANY = "any"
    """Nothing: some servers declare that type for everything."""


class EpochUnit(StrEnum):
    """The unit of numbers that count from the beginning of 1970."""

    SECONDS = "s"
    MILLIS = "ms"
    MICROS = "us"
    NANOS = "ns"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a source. `columns` has those of single columns, by their names."""

    header: HeaderRule = HeaderRule.NAMES
    retractions: RetractionRule = RetractionRule.REFUSE
    skip_lines: int = 0
    unit_lines: int = 0
    footer_lines: int = 0
    repeated_header: RepeatedHeader = RepeatedHeader.ROW
    sheet: str | None = None
    decimal: str = "."
    thousands: str | None = None
    null_words: frozenset[str] = frozenset()
    time_zone: str | None = None
    epoch: EpochUnit | None = None
    json_numbers: JsonNumbers = JsonNumbers.EXACT
    json_text: bool = False
    content_type: ContentType = ContentType.CHECKED
    watermark_ahead_s: float | None = None
    """Seconds ahead of the clock up to which event times move the watermark; None: as the node."""
    columns: Mapping[str, ColumnOptions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """The options of one column."""

    null_words: frozenset[str] = frozenset()
    epoch: EpochUnit | None = None
    json_text: bool = False
    unit: str | None = None


def _choice(kind: type[StrEnum], value: Any) -> Any:
    return kind(value)


def _count(most: int, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not 0 <= value <= MAX_SECONDS:
        raise ValueError
    return float(value)


def _one_of(allowed: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or value not in allowed:
        raise ValueError
    return value


def _yes_no(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_WORD_CHARS:
        raise ValueError
    return value


def _unit(value: Any) -> str:
    if len(_text(value)) > MAX_UNIT_CHARS or not value.isprintable():
        raise ValueError
    return str(value)


def _words(value: Any) -> frozenset[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_WORDS:
        raise ValueError
    return frozenset(map(_text, listed))


def _zone(value: Any) -> str:
    offset_at(_text(value), _NOON)
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOption:
    """An option: its attribute, the field of `ReadOptions`, the read steps that have it (None:
    all), whether single columns may have it, too, and whether sources may. `parse` raises
    `ValueError` for a value that is not `wanted`."""

    key: str
    name: str
    parse: Callable[[Any], Any]
    wanted: str
    about: str
    steps: tuple[type, ...] | None = None
    of_columns: bool = False
    of_sources: bool = True


_CSV = (ReadStepCsv,)
_JSON = (ReadStepJson, ReadStepNdJson, ReadStepGeoJson, ReadStepNdGeoJson)
_TEXTS = (*_CSV, *_JSON)


def _words_of(kind: type[StrEnum]) -> str:
    return "one of " + ", ".join(kind)


def _chosen(key: str, name: str, kind: type[StrEnum], about: str, **options: Any) -> SourceOption:
    return SourceOption(
        key=PREFIX + key, name=name, parse=partial(_choice, kind), wanted=_words_of(kind),
        about=about, **options,
    )  # fmt: skip


def _counted(key: str, name: str, most: int, about: str) -> SourceOption:
    return SourceOption(
        key=PREFIX + key, name=name, parse=partial(_count, most), steps=_CSV,
        wanted=f"a whole number from 0 to {most}", about=about,
    )  # fmt: skip


OPTIONS = (
    _chosen("csvHeader", "header", HeaderRule, "how the header relates to the declared names"),
    _chosen("retractions", "retractions", RetractionRule, "what a false retraction leads to"),
    _counted("skipLines", "skip_lines", MAX_SKIPPED_LINES, "lines before the header: titles"),
    _counted("unitLines", "unit_lines", MAX_UNIT_LINES, "lines after the header: units"),
    _counted("footerLines", "footer_lines", MAX_FOOTER_LINES, "lines at the end: sums, sources"),
    _chosen(
        "repeatedHeader", "repeated_header", RepeatedHeader,
        "what lines are that repeat the header", steps=_CSV,
    ),
    SourceOption(
        key=PREFIX + "sheet", name="sheet", parse=_text, steps=_CSV,
        wanted=f"the name of a sheet, of at most {MAX_WORD_CHARS} characters",
        about="the sheet to read of a workbook",
    ),
    SourceOption(
        key=PREFIX + "decimal", name="decimal", parse=partial(_one_of, ".,"), steps=_TEXTS,
        wanted="a point or a comma", about="the sign before the fraction of a number",
    ),
    SourceOption(
        key=PREFIX + "thousands", name="thousands", parse=partial(_one_of, ".,' _"), steps=_TEXTS,
        wanted="a point, a comma, an apostrophe, a blank or an underscore",
        about="the sign between groups of digits; a blank is any of Unicode's narrow ones, too",
    ),
    SourceOption(
        key=PREFIX + "nullWords", name="null_words", parse=_words, steps=_TEXTS, of_columns=True,
        wanted=f"a list of up to {MAX_WORDS} texts of up to {MAX_WORD_CHARS} characters",
        about="texts that stand for no value: of a source in all columns but those of text, "
        "of a column in that column",
    ),
    SourceOption(
        key=PREFIX + "timeZone", name="time_zone", parse=_zone, steps=_TEXTS,
        wanted="a name of the zone database (Europe/Berlin) or an offset (+01:00)",
        about="the zone of times that name none",
    ),
    _chosen(
        "epoch", "epoch", EpochUnit, "the unit of numbers in columns of times, since 1970",
        steps=_TEXTS, of_columns=True,
    ),
    _chosen(
        "jsonNumbers", "json_numbers", JsonNumbers, "numbers in columns of another kind",
        steps=_JSON,
    ),
    SourceOption(
        key=PREFIX + "jsonText", name="json_text", parse=_yes_no, steps=_JSON, of_columns=True,
        wanted="true or false",
        about="whether a column of text, or each of a source, holds values of any kind as JSON",
    ),
    SourceOption(
        key=UNIT_KEY, name="unit", parse=_unit, of_columns=True, of_sources=False,
        wanted=f"one line of at most {MAX_UNIT_CHARS} characters",
        about="the unit of a column, which lines of units are compared with",
    ),
    _chosen("contentType", "content_type", ContentType, "what text/html of a server means"),
    SourceOption(
        key=PREFIX + "watermarkAheadSeconds", name="watermark_ahead_s", parse=_seconds,
        wanted=f"a number of seconds, at most {MAX_SECONDS}",
        about="how far ahead of the clock event times move the watermark",
    ),
)  # fmt: skip
"""All options. Documentation, commands and the form list them from here."""
_BY_KEY = {option.key: option for option in OPTIONS}
DEFAULTS = ReadOptions()
GROUP_SIGNS = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
"""Signs between groups of digits that have several forms."""


def options_of(step: ReadStep) -> ReadOptions:
    """Return the options of a source. Unknown attributes are ignored: a newer version may have
    them. Raises `UnknownSourceOption` for an invalid value."""
    schema = step.schema
    if schema is None:
        return DEFAULTS
    found = {
        option.name: _parsed(option, value)
        for option, value in _given(schema.extra)
        if option.of_sources and (option.steps is None or isinstance(step, option.steps))
    }
    columns = {}
    for column in schema.fields:
        own = {
            option.name: _parsed(option, value)
            for option, value in _given(column.extra)
            if option.of_columns and isinstance(step, option.steps or object)
        }
        if own:
            columns[column.name] = ColumnOptions(**own)
    options = ReadOptions(**found, columns=columns)
    if options.thousands == options.decimal:
        raise BadInput(
            "UnknownSourceOption",
            f"{PREFIX}decimal and {PREFIX}thousands are two signs, not both {options.decimal!r}",
            attribute=f"{PREFIX}thousands",
        )
    return options


def check_options(step: ReadStep) -> None:
    """Check the options of a source that is being defined: all are known. Options of a format may
    be given to any source, since posts may have another format. Raises `UnknownSourceOption`."""
    schema = step.schema
    if schema is None:
        return
    of_sources = tuple(option for option in OPTIONS if option.of_sources)
    _check_known(schema.extra, of_sources, "source")
    of_columns = tuple(option for option in OPTIONS if option.of_columns)
    for column in schema.fields:
        _check_known(column.extra, of_columns, "column")
    options_of(step)


def _check_known(extra: Attributes | None, known: tuple[SourceOption, ...], what: str) -> None:
    keys = [option.key for option in known]
    for key in _value(extra):
        if key.startswith(PREFIX) and key not in keys:
            raise BadInput(
                "UnknownSourceOption",
                f"the attribute {key[:100]} of a {what} is not known; known are {', '.join(keys)}",
                attribute=key[:100],
            )


def _given(extra: Attributes | None) -> list[tuple[SourceOption, Any]]:
    value = _value(extra)
    return [(_BY_KEY[key], value[key]) for key in value if key in _BY_KEY]


def _value(extra: Attributes | None) -> Mapping[str, Any]:
    try:
        return extra.value if extra is not None else {}
    except MalformedAttributes:
        return {}


def _parsed(option: SourceOption, value: Any) -> Any:
    try:
        return option.parse(value)
    except (ValueError, TypeError):
        raise BadInput(
            "UnknownSourceOption",
            f"the attribute {option.key} is {option.wanted}",
            attribute=option.key,
        ) from None
