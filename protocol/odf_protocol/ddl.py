"""Converts the DDL columns of a read step (`ddlSchema`) to an ODF schema.

The columns are joined by commas and parsed like the body of `create table`, with a grammar that
accepts exactly what the reference accepts:

    columns  = [ column { "," column } ]
    column   = name type { "NOT NULL" }
    name     = word | "quoted" | `quoted`
    type     = WORD [ "(" number [ "," number ] ")" ] [ clause ] | ARRAY "<" type ">"

Types are optional unless `NOT NULL` follows, except DATE and DECIMAL, which are always required.
That is an oversight of the reference, kept because it affects results.
Source: ODF "ReadStep" (`ddlSchema`); type names as the reference converts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .columns.arrow_schema import MAX_NESTING, UnsupportedSchema
from .metadata import schema as odf
from .metadata.schema import DataField, DataSchema, DataType, TimeUnit

MAX_DDL_CHARS = 1 << 18
"""Limit in characters of all columns together."""
MAX_DECIMAL_DIGITS = 76

TABLE_CONSTRAINTS = frozenset(
    ["CONSTRAINT", "UNIQUE", "PRIMARY", "FOREIGN", "CHECK", "INDEX", "KEY", "FULLTEXT", "SPATIAL"]
)
"""Words that begin something other than a column; as column names they must be quoted."""

_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?(?:\*/|(?P<open>\Z))          # nothing
    | (?P<quoted>"(?:[^"]|"")*" | `(?:[^`]|``)*`)
    | (?P<number>\d+(?![\w$#@]))
    | (?P<word>[^\W\d][\w$\#@]* | [\#@][\w$\#@]+)
    | (?P<mark>[(),<>\[\]])
    | (?P<other>'(?:[^']|'')*' | .)                        # of no use, told where it stands""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    """A token: `kind` is a group of `_TOKEN` or "end", `text` is unquoted, `at` counts from 0."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The upper-case text if it can be a keyword, else empty."""
        return self.text.upper() if self.kind == "word" else ""


def parse_ddl(columns: Sequence[str]) -> DataSchema:
    """Return the schema of DDL columns such as `city STRING NOT NULL`.

    Raises:
        DdlSyntax: the text is incomplete or is not a column list.
        UnsupportedSchema: a type or column option without counterpart.
        Facts of both: `column` (name, if known), `position` (in the joined text).
    """
    return _Parser(",".join(columns)).columns()


def required_unasked(columns: Sequence[str]) -> list[str]:
    """Return the names of required columns for which nobody wrote NOT NULL. Raises as
    `parse_ddl`."""
    parser = _Parser(",".join(columns))
    parser.columns()
    return parser.unasked


def _tokens(text: str) -> list[_Token]:
    if len(text) > MAX_DDL_CHARS:
        raise UnsupportedSchema("DdlSyntax", f"DDL is longer than {MAX_DDL_CHARS} characters")
    found: list[_Token] = []
    for match in _TOKEN.finditer(text):  # every character belongs to some token
        at = match.start()
        if match.lastgroup == "quoted":
            quote = match[0][0]
            found.append(_Token("quoted", match[0][1:-1].replace(quote * 2, quote), at))
        elif match.lastgroup == "open":  # told at once: what follows has been read to its end
            raise UnsupportedSchema(
                "DdlSyntax", f"the comment at character {at} of the DDL is not closed", position=at
            )
        elif match.lastgroup:
            found.append(_Token(match.lastgroup, match[0], at))
    return [*found, _Token("end", "end of the DDL", len(text))]


class _Parser:
    """Recursive descent parser for the tokens of one `ddlSchema`."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        self._column: str | None = None
        self.unasked: list[str] = []

    def columns(self) -> DataSchema:
        if self._peek.kind == "end":
            return DataSchema(fields=())
        fields = [self._field()]
        while self._taken(","):
            fields.append(self._field())
        if self._peek.kind != "end":
            raise self._syntax("',' or the end")
        return DataSchema(fields=tuple(fields))

    # --- grammar

    def _field(self) -> DataField:
        self._column = None
        token = self._peek
        if token.kind not in ("word", "quoted") or not token.text:
            raise self._syntax("a column name")
        if token.word in TABLE_CONSTRAINTS:
            raise self._syntax(f"a column name ({token.text} is a reserved word; quote it)")
        self._next += 1
        self._column = token.text
        data_type = self._type(0)
        asked = False
        while self._peek.kind != "end" and self._peek.text != ",":
            if not self._taken("NOT", "NULL"):
                raise self._after_type()
            asked = True
            if isinstance(data_type, odf.DataTypeOption):
                data_type = data_type.inner
        if not asked and not isinstance(data_type, odf.DataTypeOption):
            self.unasked.append(token.text)
        return DataField(name=token.text, type=data_type)

    def _type(self, depth: int) -> DataType:
        if depth > MAX_NESTING:
            raise self._unsupported(f"types nested deeper than {MAX_NESTING}")
        start = self._peek
        if start.kind != "word":
            raise self._syntax("a type")
        self._next += 1
        if start.word == "ARRAY":
            return self._array(depth)
        if start.word not in _TYPES:
            raise self._unsupported(f"the type {start.text}", start)
        parse = _TYPES[start.word]
        return parse if not callable(parse) else parse(self)

    def _array(self, depth: int) -> DataType:
        if not self._taken("<"):
            raise self._unsupported("ARRAY without an item type, as in ARRAY<STRING>")
        item_type = self._type(depth + 1)
        if not self._taken(">"):
            raise self._after_type()
        return odf.DataTypeOption(inner=odf.DataTypeList(item_type=item_type))

    def integer(self, signed: DataType, unsigned: DataType) -> DataType:
        """Parse an integer type; a display width is ignored."""
        self._parameters(1)
        return unsigned if self._taken("UNSIGNED") else signed

    def text(self) -> DataType:
        """Parse a text type; a length is not enforced."""
        if self._taken("("):
            if not (self._number() is not None or self._taken("MAX")):
                raise self._syntax("a length")
            _ = self._taken("CHARACTERS") or self._taken("OCTETS")
            self._close()
        return _STRING

    def timestamp(self) -> DataType:
        """Parse a timestamp type; precision and zone clause are ignored."""
        self._parameters(1)
        for clause in ("WITH", "WITHOUT"):
            if self._taken(clause) and not self._taken("TIME", "ZONE"):
                raise self._syntax("TIME ZONE")
        return _TIMESTAMP

    def timestamp_with_zone(self) -> DataType:
        self._parameters(1)
        return _TIMESTAMP

    def decimal(self) -> DataType:
        start = self._peek
        numbers = self._parameters(2)
        if len(numbers) != 2:
            raise self._unsupported("DECIMAL without precision and scale", start)
        precision, scale = numbers
        if not 1 <= precision <= MAX_DECIMAL_DIGITS or scale > precision:
            raise self._unsupported(f"DECIMAL({precision},{scale})", start)
        return odf.DataTypeDecimal(precision=precision, scale=scale)

    # --- tokens

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _taken(self, *words: str) -> bool:
        """Skip the words or the mark if they are next; return whether they were."""
        following = self._tokens[self._next : self._next + len(words)]
        if [token.word or (token.kind == "mark" and token.text) for token in following] != list(
            words
        ):
            return False
        self._next += len(words)
        return True

    def _number(self) -> int | None:
        if self._peek.kind != "number" or len(self._peek.text) > 18:
            return None
        self._next += 1
        return int(self._tokens[self._next - 1].text)

    def _parameters(self, most: int) -> list[int]:
        """Return the numbers in parentheses, if there are any."""
        if not self._taken("("):
            return []
        numbers: list[int] = []
        while True:
            number = self._number()
            if number is None:
                raise self._syntax("a number")
            numbers.append(number)
            if not self._taken(","):
                break
        self._close()
        if len(numbers) > most:
            raise self._unsupported(f"a type with {len(numbers)} parameters")
        return numbers

    def _close(self) -> None:
        if not self._taken(")"):
            raise self._syntax("')'")

    # --- errors

    def _syntax(self, expected: str) -> UnsupportedSchema:
        token = self._peek
        return UnsupportedSchema(
            "DdlSyntax",
            f"expected {expected}, found {token.text[:60]!r} at character {token.at} of the DDL",
            column=self._column,
            position=token.at,
        )

    def _unsupported(self, what: str, token: _Token | None = None) -> UnsupportedSchema:
        at = (token or self._peek).at
        return UnsupportedSchema(
            f"column {self._column!r}: {what[:100]} is not supported (character {at} of the DDL)",
            column=self._column,
            position=at,
        )

    def _after_type(self) -> UnsupportedSchema:
        token = self._peek
        if token.kind == "word" or token.text in ("[", "("):
            return self._unsupported(f"{token.text!r} after the type")
        return self._syntax("',' or NOT NULL")


_STRING = odf.DataTypeOption(inner=odf.DataTypeString())
_TIMESTAMP = odf.DataTypeOption(
    inner=odf.DataTypeTimestamp(unit=TimeUnit.Millisecond, timezone="UTC")
)


def _optional(kind: type) -> DataType:
    return odf.DataTypeOption(inner=kind())


_INT32, _UINT32 = _optional(odf.DataTypeInt32), _optional(odf.DataTypeUInt32)
_INT64, _UINT64 = _optional(odf.DataTypeInt64), _optional(odf.DataTypeUInt64)
_BOOL = _optional(odf.DataTypeBool)
_FLOAT32, _FLOAT64 = _optional(odf.DataTypeFloat32), _optional(odf.DataTypeFloat64)

_TYPES: dict[str, DataType | Callable[[_Parser], DataType]] = {
    "BOOL": _BOOL,
    "BOOLEAN": _BOOL,
    "INT": lambda parser: parser.integer(_INT32, _UINT32),
    "INTEGER": lambda parser: parser.integer(_INT32, _UINT32),
    "SIGNED": _INT32,
    "INT32": _INT32,
    "UNSIGNED": _UINT32,
    "UINT32": _UINT32,
    "BIGINT": lambda parser: parser.integer(_INT64, _UINT64),
    "FLOAT": _FLOAT32,
    "FLOAT32": _FLOAT32,
    "DOUBLE": _FLOAT64,
    "STRING": _Parser.text,
    "VARCHAR": _Parser.text,
    "FIXEDSTRING": _Parser.text,
    "TEXT": _STRING,
    "TINYTEXT": _STRING,
    "MEDIUMTEXT": _STRING,
    "LONGTEXT": _STRING,
    "TIMESTAMP": _Parser.timestamp,
    "TIMESTAMPTZ": _Parser.timestamp_with_zone,
    "DATE": odf.DataTypeDate(),
    "DECIMAL": _Parser.decimal,
}
"""For each type name its ODF type, or the function that parses the rest of the type."""
