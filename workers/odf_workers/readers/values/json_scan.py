"""A scanner for JSON text that may exceed the memory: it reads one value at a time.

Numbers with a fraction or exponent are kept as text, so that decimals lose no digits and geometries
are written as in the input.

Fields of JSON records that the schema lacks, and columns that no record has.

Neither is an error: a missing field is null and a surplus one is not stored. But either may be a
misspelt name, so the publisher receives a warning.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, BinaryIO, NamedTuple

from ...slices.schema import BadRow, Limits
from .csv_records import BOM

CHUNK_BYTES = 1 << 16
SHOWN_TEXT = 200
"""Limit of the characters of a text that an error shows."""
_BLANKS = " \t\r\n"


class Value(NamedTuple):
    """A value, the line on which it begins, the length of its text, and in a document, of which a
    line may have many values, its number from 1."""

    line: int
    content: Any
    size: int
    number: int | None = None


class NumberText(str):
    """A JSON number with a fraction or an exponent, as written."""

    __slots__ = ()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these names and values. Which of two values of one name is meant,
    nobody knows (RFC 8259, section 4), so such an object is refused."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"the name {twice[:SHOWN_TEXT]!r} stands twice in one object")
    return made


DECODER = json.JSONDecoder(
    object_pairs_hook=_record, parse_float=NumberText, parse_constant=_refuse_constant
)


class JsonScanner:
    """The current position in the text, and its line (from 1)."""

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream, self._limits = stream, limits
        self._decoder = getincrementaldecoder("utf-8")()
        self._buffer, self._position = "", 0
        self._counted, self._line = 0, 1
        self._at_end = False
        self._started = False
        self._failed_at = 0
        self.size = 0
        """Characters of the last value."""

    @property
    def line(self) -> int:
        self._line += self._buffer.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._line

    def peek(self) -> str:
        """Return the next character that is not blank; an empty string at the end."""
        while True:
            while self._position < len(self._buffer):
                if (character := self._buffer[self._position]) not in _BLANKS:
                    return character
                self._position += 1
            if not self._fill(CHUNK_BYTES):
                return ""

    def take(self, wanted: str) -> None:
        """Step over one expected character. Raises `BadRow`."""
        found = self.peek()
        if found != wanted:
            raise BadRow(f"{wanted!r} expected, {found or 'the end'!r} found", line=self.line)
        self._position += 1

    def value(self) -> Any:
        """Decode the value that starts here. Raises `BadRow`, `InputTooLarge`."""
        self.peek()
        wanted = CHUNK_BYTES
        while True:
            whole = False
            try:
                value, end = DECODER.raw_decode(self._buffer, self._position)
            except (ValueError, RecursionError) as bad:
                failure: Exception = bad
                # Count from here, since reading more text drops the text before.
                self._failed_at = getattr(bad, "pos", 0) - self._position
            else:
                # A number at the end of the buffer may continue in the next chunk.
                whole = True
                closed = isinstance(value, dict | list) or type(value) is str
                if closed or end < len(self._buffer) or self._at_end:
                    if end - self._position > self._limits.row_bytes:
                        raise self._limits.row_too_large(self.line)
                    self.size = end - self._position
                    self._position = end
                    return value
                failure = ValueError("unfinished number")
            if len(self._buffer) - self._position > self._limits.row_bytes:
                raise self._too_large_or(failure)
            if not self._fill(wanted) and not whole:
                raise self._bad(failure)
            wanted *= 2

    def end(self) -> None:
        """Check that only blanks follow. Raises `BadRow`."""
        if self.peek():
            raise BadRow(
                "text after the end of the document", line=self.line, value=self._excerpt()
            )

    def _fill(self, size: int) -> bool:
        """Read more text, and drop the text before the position. Return False at the end."""
        if self._at_end:
            return False
        raw = self._stream.read(size)
        if not self._started:
            raw, self._started = raw.removeprefix(BOM), True
        line = self.line
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as bad:
            line += raw[: max(bad.start, 0)].count(b"\n")
            line += self._buffer.count("\n", self._position)
            raise BadRow("the text is not UTF-8", line=line) from None
        self._buffer = self._buffer[self._position :] + text
        self._position = self._counted = 0
        self._at_end = not raw
        return not self._at_end

    def _too_large_or(self, failure: Exception) -> Exception:
        near = self._limits.row_bytes // 2
        if (
            isinstance(failure, json.JSONDecodeError)
            and self._failed_at < near
            and not failure.msg.startswith("Unterminated string")
        ):
            return self._bad(failure)
        return self._limits.row_too_large(self.line)

    def _bad(self, failure: Exception) -> BadRow:
        line = self.line
        if isinstance(failure, RecursionError):
            return BadRow("the value is nested too deeply", line=line)
        reason = str(failure)
        if isinstance(failure, json.JSONDecodeError):
            line += self._buffer.count("\n", self._position, self._position + self._failed_at)
            reason = failure.msg
        return BadRow(f"not JSON ({reason})", line=line, value=self._excerpt())

    def _excerpt(self) -> str:
        text = self._buffer[self._position : self._position + SHOWN_TEXT]
        return text.split("\n", 1)[0].strip()


def array_of(scanner: JsonScanner) -> Iterator[Value]:
    """Yield the values of the array that starts here. Raises `BadRow`."""
    scanner.take("[")
    if scanner.peek() == "]":
        scanner.take("]")
        return
    for number in count(1):
        scanner.peek()
        line = scanner.line
        try:
            content = scanner.value()
        except BadRow as bad:
            raise bad.in_record(number) from None
        yield Value(line, content, scanner.size, number)
        if scanner.peek() != ",":
            break
        scanner.take(",")
    scanner.take("]")


def keys_of(scanner: JsonScanner) -> Iterator[str]:
    """Yield the keys of the object that starts here; the caller consumes each value before the
    next key. Raises `BadRow`."""
    scanner.take("{")
    if scanner.peek() == "}":
        scanner.take("}")
        return
    while True:
        line = scanner.line
        key = scanner.value()
        if type(key) is not str:
            raise BadRow("a key must be text", line=line)
        scanner.take(":")
        yield key
        if scanner.peek() != ",":
            break
        scanner.take(",")
    scanner.take("}")


def compact_json(value: Any) -> str:
    """Return JSON with keys in alphabetical order and numbers as in the input."""
    match value:
        case dict():
            parts = (f"{json.dumps(key)}:{compact_json(value[key])}" for key in sorted(value))
            return "{" + ",".join(parts) + "}"
        case list():
            return "[" + ",".join(map(compact_json, value)) + "]"
        case NumberText():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


MAX_UNKNOWN = 1_000
"""Limit of unknown names that are remembered."""
MAX_REMARKS = 20
SHOWN_NAMES = 10


class FieldsSeen:
    """Field names in the records of a batch so far."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._absent = dict.fromkeys(columns)
        self._columns = frozenset(columns)
        self._unknown: dict[str, None] = {}
        self._remarks: dict[str, None] = {}
        self._any = False

    @property
    def unknown(self) -> bool:
        return bool(self._unknown)

    def left_out(self, name: str) -> bool:
        """Whether a record has the name, and no column has it."""
        return name in self._unknown

    def note(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Record the names in some records."""
        listed = list(records)
        if listed:
            self.note_names(set().union(*listed))

    def note_names(self, names: Iterable[str]) -> None:
        """Record all names in some records, at least one record."""
        found = set(names)
        self._any = True
        for name in self._absent.keys() & found:
            del self._absent[name]
        for name in sorted(found - self._columns):
            if len(self._unknown) >= MAX_UNKNOWN:
                break
            self._unknown[name] = None

    def absent(self, name: str) -> bool:
        """Whether no record has had the column."""
        return name in self._absent

    def remark(self, text: str) -> None:
        """Record something else to warn of; once, however often it is met."""
        if len(self._remarks) < MAX_REMARKS:
            self._remarks[text] = None

    def follow(self, other: FieldsSeen) -> None:
        """Add the names in later records."""
        self._any |= other._any
        self._absent = {name: None for name in self._absent if name in other._absent}
        for name in other._unknown:
            if len(self._unknown) < MAX_UNKNOWN:
                self._unknown[name] = None
        for text in other._remarks:
            self.remark(text)

    def warnings(self) -> list[str]:
        """Return the warnings for the publisher; call this after all records."""
        told = []
        told += not_stored("fields", self._unknown)
        if self._absent and self._any:
            told.append(f"columns that no record names are null: {_shown(self._absent)}")
        return [*told, *sorted(self._remarks)]  # in one order, however the file was cut


def not_stored(what: str, names: Iterable[str]) -> list[str]:
    """Return the warning about names in the input that no column has."""
    listed = sorted(names)  # in one order, however the file was cut
    return [f"{what} that the schema does not name are not stored: {_shown(listed)}"] * bool(listed)


def _shown(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(f"`{_short(name)}`" for name in listed[:SHOWN_NAMES])
    return shown + (", …" if listed[SHOWN_NAMES:] else "")


def _short(name: str) -> str:
    text = name.encode(errors="backslashreplace").decode()
    return text if len(text) <= 100 else text[:100] + "…"
