"""Columns of records with one type each, such that a single source can read them all.

A source has one pattern for dates and one for times. Columns that do not fit the chosen pattern
stay text, and a remark says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from odf_protocol.columns.arrow_digest import UnsupportedColumn, beginnings
from odf_protocol.columns.arrow_schema import UnsupportedSchema, from_arrow
from odf_protocol.columns.column_names import UNIT_KEY
from odf_protocol.errors import BadInput
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.schema import (
    DataField,
    DataType,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeFloat64,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    bare_type,
)

from .headers import Records
from .options import Choices, DateOrder, advice
from .values import (
    INT64,
    PLAIN,
    Guess,
    Signs,
    guess,
    is_day_first,
    is_word_for_nothing,
    keeps,
    null_words,
    number_for_nothing,
    on_zones,
    signs_of,
)

TYPES: dict[str, DataType] = {
    "String": DataTypeString(),
    "Int64": DataTypeInt64(),
    "Float64": DataTypeFloat64(),
    "Bool": DataTypeBool(),
    "Date": DataTypeDate(),
    "Timestamp": DataTypeTimestamp(),
}
"""Types that a person may choose for a column, beside decimals."""
TEMPORAL = ("Date", "Timestamp")
JSON_TEXT = "JSON"
"""Kind of a column of text that holds values of any kind as JSON."""
WIDEST = 38
"""Digits of the widest decimal."""
_DECIMAL = re.compile(r"Decimal\((\d{1,2}), ?(\d{1,2})\)")


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column in the proposal."""

    name: str
    type: DataType
    kind: str
    """Name of the type."""
    note: str = ""
    has_nulls: bool = True
    values: tuple[Any, ...] = ()
    """The first values, as they would be stored."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    words: frozenset[str] = frozenset()
    """Texts of the file that stand for no value."""
    is_open: bool = False
    """Whether a person has to choose the type."""

    def with_texts(self, words: frozenset[str], unit: str | None) -> ProposedColumn:
        """Return the column with words that stand for no value, and a unit, which texts lack."""
        more = {} if unit is None or self.kind == "String" else {UNIT_KEY: unit}
        return replace(self, words=words, attributes={**self.attributes, **more})

    def declared(self, *, is_required: bool) -> DataField:
        """Return the column of the schema: it allows null, unless it is part of the key or the
        event time."""
        kind = self.type if is_required else DataTypeOption(inner=self.type)
        extra = Attributes.of(self.attributes) if self.attributes else None
        return DataField(name=self.name, type=kind, extra=extra)


@dataclass(frozen=True, slots=True)
class ProposedColumns:
    """Columns, and the options of the source that are needed to read them."""

    columns: tuple[ProposedColumn, ...]
    null_value: str | None = None
    patterns: Mapping[str, str | None] = field(default_factory=dict)
    """Patterns by the kind of column: `Date`, `Timestamp`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    """Questions for a person, which the sample does not answer."""
    signs: Signs = PLAIN

    def plain(self, column: ProposedColumn, values: Sequence[Any]) -> Sequence[Any]:
        """Return values of the file as a program would write them, and words for no value as
        None."""
        if column.words:
            values = [
                None if isinstance(one, str) and one in column.words else one for one in values
            ]
        if self.signs == PLAIN or column.kind in ("String", "Bool", *TEMPORAL):
            return values
        return [
            (self.signs.plain([one]) or [one])[0] if type(one) is str else one for one in values
        ]


def named_type(text: str, column: str) -> tuple[str, DataType]:
    """Return a type by its name. Raises `UnknownColumn`."""
    if text in TYPES:
        return text, TYPES[text]
    found = _DECIMAL.fullmatch(text)
    precision, scale = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 0 < precision <= WIDEST or scale > precision:
        known = ", ".join(TYPES)
        raise BadInput(
            "UnknownColumn",
            f"a type is one of {known}, or Decimal(DIGITS,FRACTION) of up to {WIDEST} digits, not "
            f"{text[:50]!r}",
            column=column[:100],
        )
    return f"Decimal({precision},{scale})", DataTypeDecimal(precision=precision, scale=scale)


def columns_of(
    records: Records,
    choices: Choices,
    refused: Mapping[str, str],
    *,
    is_text: bool,
    has_patterns: bool,
) -> ProposedColumns:
    """Propose the columns of records. `is_text` means that all values are texts; `has_patterns`,
    that sources of the format declare patterns of times; `refused` has the reader's reasons not to
    take columns in their guessed type.

    Raises:
        UnknownColumn
    """
    _check_known(choices.types, records.names)
    signs = _signs(records, choices, is_text=is_text)
    words = frozenset(choices.null)
    given = {
        name: _without([one for one in column if one is not None], words)
        for name, column in zip(records.names, records.columns, strict=True)
    }
    texts = {*refused, *(name for name, kind in choices.types.items() if kind == "String")}
    nothing = {
        name: frozenset() if name in texts else _words_in(values, signs)
        for name, values in given.items()
    }
    values = {name: _without(some, nothing[name]) for name, some in given.items()}
    told = signs if is_text else None
    guesses = {name: _guess(name, some, refused.get(name), told) for name, some in values.items()}
    patterns, questions = _patterns(guesses, choices, has_patterns=has_patterns)
    columns = tuple(
        _column(name, _settled(guesses[name], patterns), values[name], choices).with_texts(
            words | nothing[name], records.units.get(name)
        )
        for name in records.names
    )
    notes = _notes_on_words(columns, given, nothing, signs)
    options: dict[str, Any] = {
        "odf-node/timeZone": choices.time_zone,
        "odf-node/decimal": signs.decimal if signs.decimal != "." else None,
        "odf-node/thousands": signs.thousands or None,
    }
    null_value, options["odf-node/nullWords"], of_columns = _null_options(
        columns, nothing, choices, is_text=is_text
    )
    if of_columns:
        columns = tuple(
            replace(one, attributes={**one.attributes, "odf-node/nullWords": of_columns})
            for one in columns
        )
    return ProposedColumns(
        columns=columns,
        null_value=null_value,
        patterns=patterns,
        options={key: value for key, value in options.items() if value},
        notes=tuple(notes),
        questions=tuple(questions),
        signs=signs,
    )


def _check_known(types: Mapping[str, str], names: Sequence[str]) -> None:
    for name in types:
        if name not in names:
            raise BadInput(
                "UnknownColumn", f"the file has no column {name[:100]!r}", column=name[:100]
            )


def _without(values: Sequence[Any], words: frozenset[str]) -> Sequence[Any]:
    """Leave out words; other values may be of any kind."""
    if not words:
        return values
    return [one for one in values if not (isinstance(one, str) and one in words)]


def _patterns(
    guesses: Mapping[str, Guess], choices: Choices, *, has_patterns: bool
) -> tuple[dict[str, str | None], list[str]]:
    """Return the patterns of the source by the kind of column, and questions."""
    patterns: dict[str, str | None] = dict.fromkeys(TEMPORAL)
    questions: list[str] = []
    for kind in TEMPORAL if has_patterns else ():
        patterns[kind], asked = _pattern_for(kind, guesses, choices.date_order)
        questions += asked
    return patterns, questions


def columns_read(rows: pa.Table, given: pa.Schema, choices: Choices) -> ProposedColumns:
    """Return the columns of a file that says its types, as its rows were read; `given` are types of
    the file. Raises `UnknownColumn`."""
    _check_known(choices.types, rows.column_names)
    columns = []
    for at in from_arrow(rows.schema).fields:
        data_type = bare_type(at.type)
        kind, note = str(type(data_type).__struct_config__.tag), _told(at.name, given)
        if at.name in choices.types:
            (kind, data_type), note = named_type(choices.types[at.name], at.name), "as you say"
        columns.append(ProposedColumn(at.name, data_type, kind, note))
    return ProposedColumns(columns=tuple(columns))


def _told(name: str, given: pa.Schema) -> str:
    """Return a remark on a column that does not have its type of the file."""
    kind = given.field(name).type if name in given.names else pa.string()
    if pa.types.is_null(kind):
        return "no value in the file, so text"
    if pa.types.is_duration(kind):
        return f"durations, which are stored as counts ({kind.unit})"
    if pa.types.is_nested(kind) and not is_stored(kind):
        return "no column has such values, so JSON as text"
    return ""


def is_stored(kind: pa.DataType) -> bool:
    """Whether a column may have the type of a file: its values have a hash, and all of them a
    type."""
    schema = pa.schema([pa.field("x", kind)])
    try:
        beginnings(schema)
        from_arrow(schema)
    except (UnsupportedColumn, UnsupportedSchema):
        return False
    return not _has_nothing(kind)


def _signs(records: Records, choices: Choices, *, is_text: bool) -> Signs:
    if choices.decimal is not None or choices.thousands is not None:
        decimal = choices.decimal or ("," if choices.thousands == "." else ".")
        return Signs(decimal, choices.thousands or "")
    if not is_text:
        return PLAIN
    nothing = {None, *choices.null}
    return signs_of(
        [text for text in column if text not in nothing and not is_word_for_nothing(text)]
        for column in records.columns
    )


def _words_in(values: Sequence[Any], signs: Signs) -> frozenset[str]:
    """Return the words that mark a missing value in a column that otherwise is not text."""
    texts = [one for one in values if isinstance(one, str) and not _is_number(one)]
    if len(texts) == len(values):
        return null_words(texts, signs)
    if texts and all(is_word_for_nothing(text) for text in texts):
        return frozenset(texts)
    return frozenset()


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a number; those with a fraction are texts of a kind of their own."""
    return isinstance(value, int | float) or (isinstance(value, str) and type(value) is not str)


def _null_options(
    columns: Sequence[ProposedColumn],
    nothing: Mapping[str, frozenset[str]],
    choices: Choices,
    *,
    is_text: bool,
) -> tuple[str | None, list[str] | None, list[str] | None]:
    """Return the word of every column that other nodes know, too, unless it would take texts from a
    column of text, in this file or a later one; else the words of all columns but those of text,
    and those of every column."""
    if choices.null and (len(choices.null) > 1 or not is_text):
        asked: list[str] | None = sorted(choices.null)
    else:
        asked = None
    word = choices.null[0] if choices.null and asked is None else None
    found = frozenset().union(*nothing.values()) - {word}
    has_texts = any(one.kind == "String" for one in columns)
    if len(found) == 1 and word is None and is_text and asked is None and not has_texts:
        return next(iter(found)), None, None
    return word, sorted(found) or None, asked


def _notes_on_words(
    columns: Sequence[ProposedColumn],
    given: Mapping[str, Sequence[Any]],
    nothing: Mapping[str, frozenset[str]],
    signs: Signs,
) -> list[str]:
    notes = []
    if signs != PLAIN:
        between = f", {signs.thousands!r} between thousands" if signs.thousands else ""
        notes.append(f"numbers are read with {signs.decimal!r} before the fraction{between}")
    for one in columns:
        if words := nothing[one.name]:
            shown = ", ".join(map(repr, sorted(words)))
            notes.append(f"{one.name}: {shown} stands for no value")
        elif one.kind in ("Int64", "Float64"):
            odd = number_for_nothing(text for text in given[one.name] if type(text) is str)
            way = "" if odd is None else advice("null", odd)
            notes += (
                [f"{one.name}: {odd} may stand for no value ({way} makes it none)"] if odd else []
            )
        elif one.kind == "String":
            kept = {text for text in given[one.name] if type(text) is str}
            notes += [
                f"{one.name}: {word!r} is kept as a text ({advice('null', word)} makes it no value)"
                for word in sorted(filter(is_word_for_nothing, kept))[:1]
            ]
    return notes


def _column(name: str, found: Guess, values: Sequence[Any], choices: Choices) -> ProposedColumn:
    if name in choices.types:
        kind, data_type = named_type(choices.types[name], name)
        return ProposedColumn(name, data_type, kind, "as you say")
    if found.type == "nested":
        return ProposedColumn(name, _nested(values) or DataTypeString(), "nested", found.note)
    if found.type == JSON_TEXT:
        return ProposedColumn(
            name, DataTypeString(), JSON_TEXT, found.note, attributes={"odf-node/jsonText": True}
        )
    kind, data_type = named_type(found.type, name)
    return ProposedColumn(name, data_type, kind, found.note)


def _guess(name: str, values: Sequence[Any], refused: str | None, signs: Signs | None) -> Guess:
    """Guess the type of a column; `signs` is how its texts write numbers, None if texts are no
    numbers."""
    kinds = {type(one) for one in values}
    if all(issubclass(kind, str) and not _is_fraction(kind) for kind in kinds):
        if refused is not None:
            return Guess("String", note=f"{refused}, so text")
        found = guess(name, values, signs or PLAIN)
        is_typed = signs is not None or found.type in TEMPORAL
        if is_typed or not values:
            return found
        return Guess("String", note=on_zones(list(dict.fromkeys(values))))
    if refused is not None:
        return Guess(JSON_TEXT, note=f"{refused}, so JSON as text")
    if kinds == {bool}:
        return Guess("Bool")
    if bool not in kinds and all(_is_number_kind(kind) for kind in kinds):
        return _number(name, values)
    if kinds <= {dict} or kinds <= {list}:
        if _nested(values) is None:
            return Guess(JSON_TEXT, note="no column has such values, so JSON as text")
        return Guess("nested")
    return Guess(JSON_TEXT, note="values of several kinds, so JSON as text")


def _is_fraction(kind: type) -> bool:
    return kind is not str and issubclass(kind, str)


def _is_number_kind(kind: type) -> bool:
    return kind is int or _is_fraction(kind)


def _number(name: str, values: Sequence[Any]) -> Guess:
    texts = list(dict.fromkeys(map(str, values)))
    if all(type(one) is int for one in values):
        if all(one in INT64 for one in values):
            return guess(name, texts)
        if all(len(text.lstrip("-")) <= WIDEST for text in texts):
            return Guess(f"Decimal({WIDEST},0)", note="numbers of more than 64 bits")
        return Guess(JSON_TEXT, note=f"numbers of more than {WIDEST} digits, so JSON as text")
    if all(map(keeps, texts)):
        return Guess("Float64")
    return Guess(JSON_TEXT, note="numbers of more digits than a Float64 keeps, so JSON as text")


def _pattern_for(
    kind: str, guesses: Mapping[str, Guess], order: DateOrder | None
) -> tuple[str | None, list[str]]:
    """Return the pattern that most columns of the kind use, or None if that is ISO 8601; and
    questions."""
    of_kind = {name: one for name, one in guesses.items() if one.type == kind}
    plain = [name for name, one in of_kind.items() if not one.patterns]
    counted = Counter(pattern for one in of_kind.values() for pattern in one.patterns)
    if not counted or len(plain) >= max(counted.values()):
        return None, []
    most = max(counted.values())
    likely = [pattern for pattern, count in counted.items() if count == most]
    first = [pattern for pattern in likely if is_day_first(pattern) is True]
    second = [pattern for pattern in likely if is_day_first(pattern) is False]
    if not (first and second):
        return likely[0], []
    if order is not None:
        return (first if order is DateOrder.DAY_FIRST else second)[0], []
    names = ", ".join(name for name, one in of_kind.items() if first[0] in one.patterns)
    question = (
        f"{names}: the sample does not tell whether the day or the month comes first; "
        f"proposed is {first[0]} (--date-order dmy for it, mdy for {second[0]})"
    )
    return first[0], [question]


def _settled(found: Guess, patterns: Mapping[str, str | None]) -> Guess:
    """Decide on a column, given the patterns of its source."""
    if found.type not in TEMPORAL:
        return found
    pattern = patterns[found.type]
    if pattern is None and not found.patterns:
        return found
    if pattern is not None and pattern in found.patterns:
        return replace(found, note=f"written as {pattern}")
    written = found.patterns[0] if found.patterns else "yyyy-MM-dd"
    read = pattern or "yyyy-MM-dd"
    return Guess("String", note=f"written as {written}; this source reads {read}, so text")


def _nested(values: Sequence[Any]) -> DataType | None:
    """Return the type of objects or lists; None if no column can have it."""
    from odf_workers.stages.preview import nested_type  # not in the service

    try:
        kind = nested_type(values)
        if _has_nothing(kind):
            return None
        found = from_arrow(pa.schema([pa.field("x", kind)])).fields[0].type
    except (pa.ArrowException, UnsupportedSchema, OverflowError, RecursionError):
        return None
    return bare_type(found)


def _has_nothing(kind: pa.DataType) -> bool:
    """Whether a part of the type has no values, or no members."""
    if pa.types.is_struct(kind):
        return not kind.num_fields or any(
            _has_nothing(kind.field(at).type) for at in range(kind.num_fields)
        )
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return _has_nothing(kind.value_type) if is_list else pa.types.is_null(kind)
