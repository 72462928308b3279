"""Text in the form that readers accept: UTF-8, without the lines that are no records.

A source may declare another encoding, and lines at the beginning, after the header and at the end
that are no rows (`source_options.py`); a byte order mark of UTF-16 or UTF-32 tells the encoding by
itself, and a first line such as `sep=;` is none of the lines that a source counts, since programs
write it or not. Such a file is written anew. Blank lines take the place of lines that are left out,
so that errors name the lines of the original.
"""

from __future__ import annotations

import codecs
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from odf_protocol.columns.column_names import plain_unit
from odf_protocol.errors import BadInput
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.schema import DataTypeString, bare_type
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)
from odf_protocol.sources.csv_header import (
    UTF8,
    HeaderMismatch,
    is_of_single_bytes,
    marked_encoding,
    match,
    names_columns,
    told_separator,
)
from odf_protocol.sources.source_options import PREFIX, ReadOptions, RepeatedHeader, options_of
from odf_protocol.sources.source_rules import csv_characters, text_encoding

from ...runtime.command import CHUNK_BYTES
from ...runtime.progress import Content, opened
from ...slices.schema import BadRow, Limits
from ..values.csv_records import CsvFormat, CsvRecords

TEXTS = ReadStepCsv | ReadStepJson | ReadStepNdJson | ReadStepGeoJson | ReadStepNdGeoJson
"""Steps of formats that are text."""
OF_LINES = ("skipLines", "unitLines", "footerLines", "repeatedHeader", "sheet")
"""Options that are done with when a file is plain."""
SHOWN_LINES, SHOWN_CHARS = 10, 60
_MARK_BYTES = 4
_SEP_BYTES = 16
"""Bytes of a first line that tells the separator, and more."""
_LINE_END = re.compile(r"\r\n|\r|\n")
_VALUE = re.compile(r"[-+]?\d[-+\d.,:/'Ee TZ]*")
"""A number, a date or a time, as a line of units has none."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A file as readers accept it, the step to read it by, and warnings for the publisher."""

    content: Content
    step: ReadStep
    warnings: tuple[str, ...] = ()


def is_plain(content: Content, step: ReadStep) -> bool:
    """Whether readers accept the text of a file as it is."""
    return not isinstance(step, TEXTS) or (
        _encoding(content, step) == UTF8
        and not leaves_lines_out(step)
        and not (isinstance(step, ReadStepCsv) and _tells_separator(content))
    )


def _tells_separator(content: Content) -> bool:
    """Whether a text in UTF-8 begins with a line that tells its separator."""
    with opened(content) as stream:
        begin = stream.read(_SEP_BYTES).decode(UTF8, "replace")
    return told_separator(_LINE_END.split(begin, maxsplit=1)[0]) is not None


def leaves_lines_out(step: ReadStep) -> bool:
    """Whether a source declares lines that are no records."""
    found = options_of(step)
    counts = found.skip_lines + found.unit_lines + found.footer_lines
    repeats = found.repeated_header is RepeatedHeader.SKIP
    return isinstance(step, ReadStepCsv) and (counts > 0 or repeats)


def plain_text(content: Content, step: ReadStep, target: Path, limits: Limits) -> Plain:
    """Return a file with the text in UTF-8 and without the lines that are left out: the given one,
    or `target`, whose folder is created if missing.

    Raises:
        BadRow: the text is not of the encoding.
        TooFewLines, HeaderMismatch, UnitsDiffer, InputTooLarge.
    """
    if is_plain(content, step):
        return Plain(content, step)
    target.parent.mkdir(parents=True, exist_ok=True)
    encoding, told = _encoding(content, step), list[str]()
    text: Iterable[str] = _decoded(content, encoding)
    if isinstance(step, ReadStepCsv):
        left = LeftOut(step, options_of(step))
        text, told = left.lines(_lines(text, limits)), left.told
    with target.open("w", encoding=UTF8, newline="") as out:
        out.writelines(text)
    if is_of_single_bytes(encoding) and (shown := _utf8_character(content)) is not None:
        told.append(
            f"all bytes of the file are UTF-8, as those of {shown!r} are, and the source declares "
            f"{encoding}, by which it is read: {shown.encode().decode(encoding, 'replace')!r}"
        )
    return Plain(target, done_with(step), tuple(told))


def done_with(step: ReadStep) -> ReadStep:
    """Return the step without the options that a plain file no longer needs."""
    changes: dict[str, Any] = {}
    if getattr(step, "encoding", None) is not None:
        changes["encoding"] = None
    schema = step.schema
    if schema is not None and schema.extra is not None:
        extra = schema.extra.value
        kept = {key: extra[key] for key in extra if key.removeprefix(PREFIX) not in OF_LINES}
        if len(kept) < len(extra):
            changes["schema"] = structs.replace(schema, extra=Attributes.of(kept) if kept else None)
    return structs.replace(step, **changes) if changes else step


def _encoding(content: Content, step: ReadStep) -> str:
    """Return the codec of a file: that of its byte order mark, else the declared one."""
    with opened(content) as stream:
        begin = stream.read(_MARK_BYTES)
    declared = text_encoding(step)
    if declared == "ascii" or begin.startswith(codecs.BOM_UTF8):
        return UTF8
    return marked_encoding(begin) or declared


def _decoded(content: Content, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with opened(content) as stream:
        while True:
            raw = stream.read(CHUNK_BYTES)
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as bad:
                line += bad.object[: bad.start].decode(encoding, "ignore").count("\n")
                shown = bad.object[bad.start : bad.start + 8].decode("ascii", "backslashreplace")
                raise BadRow(f"the text is not {encoding}", line=line, value=shown) from None
            line += text.count("\n")
            yield text
            if not raw:
                return


def _utf8_character(content: Content) -> str | None:
    """Return the first character outside of ASCII of a file that is UTF-8; None for others."""
    decoder, found = codecs.getincrementaldecoder(UTF8)(), None
    with opened(content) as stream:
        while raw := stream.read(CHUNK_BYTES):
            try:
                text = decoder.decode(raw)
            except UnicodeDecodeError:
                return None
            if found is None and not text.isascii():
                found = next(sign for sign in text if not sign.isascii())
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return None
    return found


def _lines(text: Iterable[str], limits: Limits) -> Iterator[str]:
    """Yield lines with their ends. Raises `InputTooLarge`."""
    rest, number = "", 1
    for chunk in text:
        known = len(rest) - rest.endswith("\r")
        rest += chunk
        at = 0
        # The last line, and a carriage return at the end, may go on with the next chunk.
        for found in _LINE_END.finditer(rest, known, len(rest) - rest.endswith("\r")):
            yield rest[at : found.end()]
            at, number = found.end(), number + 1
        rest = rest[at:]
        if len(rest) > limits.row_bytes:
            raise limits.row_too_large(number)
    if rest:
        yield rest


@dataclass(slots=True)
class LeftOut:
    """Leaves lines out: those before and after the header, those at the end, and repeats of the
    header. `told` has the warnings when all lines have passed."""

    step: ReadStepCsv
    options: ReadOptions
    told: list[str] = field(default_factory=list)

    def lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield all lines, blank ones in the place of those that are left out. Raises
        `TooFewLines`, `HeaderMismatch`, `UnitsDiffer`."""
        numbered: Iterator[tuple[int, str]] = enumerate(lines, 1)
        header, skipped = None, 0
        first = next(numbered, None)
        is_marked = first is not None and told_separator(first[1]) is not None
        if first is not None and is_marked:
            shown = first[1].strip("\ufeff\r\n")
            self.told.append(f"the first line, {shown!r}, tells the separator, and is no row")
            yield _blank(first[1])
        elif first is not None:
            numbered = chain([first], numbered)
        while skipped < self.options.skip_lines:
            found = next(numbered, None)
            if found is None:
                raise BadInput(
                    "TooFewLines",
                    f"the source leaves out {self.options.skip_lines} lines at the beginning, and "
                    f"the file has {skipped}",
                    lines=skipped,
                )
            skipped += 1
            self._refuse_header(*found)
            if is_marked and skipped == 1:  # who counted the mark would miss a row
                self.told.append(
                    f"the first line behind it that skipLines leaves out is line {found[0]}: "
                    f"{found[1].strip()[:SHOWN_CHARS]!r}"
                )
            yield _blank(found[1])
        if self.step.header:
            for line in self._of(numbered):
                yield line
                if line.strip():
                    header = line
                    break
        units: list[tuple[int, str]] = []
        while len(units) < self.options.unit_lines and (found := next(numbered, None)) is not None:
            units += [found] if found[1].strip() else []
            yield _blank(found[1])
        check_units(header, units, self.step, self.options)
        yield from self._rows(numbered, header)

    def _refuse_header(self, number: int, line: str) -> None:
        """Raise `HeaderMismatch` if a line that is left out before the header is the header: the
        file has fewer titles than the source says, and its first row would be left out, too."""
        schema = self.step.schema
        names = [] if schema is None else [column.name for column in schema.fields]
        if not self.step.header or len(names) < 2:
            return
        if names_columns(_fields(line.removeprefix("\ufeff"), self.step), names):
            raise HeaderMismatch(
                f"line {number} names the columns, and the source leaves out "
                f"{self.options.skip_lines} lines before the header ({PREFIX}skipLines)",
                line=number,
            )

    def _of(self, numbered: Iterator[tuple[int, str]]) -> Iterator[str]:
        return (line for _, line in numbered)

    def _rows(self, numbered: Iterator[tuple[int, str]], header: str | None) -> Iterator[str]:
        """Yield the lines after the header, without the last ones and without its repeats."""
        skips = self.options.repeated_header is RepeatedHeader.SKIP and header is not None
        plain = "" if header is None else header.rstrip("\r\n").removeprefix("\ufeff")
        names = self._names(plain)
        held: deque[str] = deque()
        full, repeats = 0, []
        for number, line in numbered:
            if skips and self._names(line) == names:
                repeats.append(number)
                line = _blank(line)
            held.append(line)
            full += bool(line.strip())
            while held and full > self.options.footer_lines:
                passed = held.popleft()
                full -= bool(passed.strip())
                yield passed
        if full < self.options.footer_lines:
            raise BadInput(
                "TooFewLines",
                f"the source leaves out {self.options.footer_lines} lines at the end, and the file "
                f"has {full} after its header",
                lines=full,
            )
        yield from map(_blank, held)
        self._tell(repeats, held, plain)

    def _names(self, line: str) -> list[str]:
        """Return the fields of a line that may be a header, without blanks and quotes."""
        separator, quote, _ = csv_characters(self.step)
        cells = line.removeprefix("\ufeff").split(separator)  # files that were put together
        return [cell.strip().strip(quote) for cell in cells]

    def _tell(self, repeats: list[int], footer: Iterable[str], header: str) -> None:
        if repeats:
            shown = ", ".join(map(str, repeats[:SHOWN_LINES]))
            more = ", …" if repeats[SHOWN_LINES:] else ""
            self.told.append(
                f"{len(repeats)} lines repeat the header and are no rows: {shown}{more}"
            )
        separator, _, _ = csv_characters(self.step)
        wanted = header.count(separator)
        alike = [line for line in footer if wanted and line.count(separator) == wanted]
        if alike:
            self.told.append(
                f"of the lines left out at the end, {len(alike)} have as many fields as a row; the "
                f"first begins with {alike[0].strip()[:60]!r}"
            )


def _blank(line: str) -> str:
    """Return an empty line with the same end."""
    return line[len(line.rstrip("\r\n")) :] or "\n"


def check_units(
    header: str | None, lines: Sequence[tuple[int, str]], step: ReadStepCsv, options: ReadOptions
) -> None:
    """Compare lines of units with the units that the columns of a source declare; where none does,
    a line that may be a row is no line of units. `lines` have their numbers.

    Raises:
        UnitsDiffer.
    """
    schema = step.schema
    if not lines or schema is None:
        return
    order = _order(header, step, options)
    cells = [(number, _fields(line, step)) for number, line in lines]
    if order is None or any(len(each) != len(order) for _, each in cells):
        return  # the reader refuses the header, or a line has a text of its own
    wanted = {name: one.unit for name, one in options.columns.items() if one.unit is not None}
    for at, column in zip(order, schema.fields, strict=True):
        unit = wanted.get(column.name)
        found = [each[at] for _, each in cells]
        if unit is not None and plain_unit(unit) not in map(plain_unit, found):
            row = ", so it may be a row" if _VALUE.fullmatch(found[0].strip()) else ""
            told = f"the source declares {unit!r}{row}"
            raise _units_differ(lines[0][0], column.name, found[0], told)
    if wanted:
        return
    typed = [
        at
        for at, one in zip(order, schema.fields, strict=True)
        if not isinstance(bare_type(one.type), DataTypeString)
    ]
    for number, each in cells:
        filled = [at for at in typed if each[at].strip()]
        if filled and all(_VALUE.fullmatch(each[at].strip()) for at in filled):
            name = schema.fields[order.index(filled[0])].name
            raise _units_differ(number, name, each[filled[0]], "the line may be a row")


def _units_differ(line: int, column: str, found: str, reason: str) -> BadInput:
    return BadInput(
        "UnitsDiffer",
        f"line {line}, column `{column}`: the line of units has {found.strip()[:50]!r}, and "
        f"{reason}. Convert the values, or define the source anew ({PREFIX}unit of its columns, "
        f"{PREFIX}unitLines)",
        line=line,
        column=column,
    )


def _order(header: str | None, step: ReadStepCsv, options: ReadOptions) -> tuple[int, ...] | None:
    """Return the fields of the declared columns, in the order of these; None if the header does not
    tell."""
    names = [] if step.schema is None else [column.name for column in step.schema.fields]
    if header is None:
        return tuple(range(len(names)))
    try:
        return match(_fields(header.removeprefix("\ufeff"), step), names, options.header).order
    except HeaderMismatch:
        return None


def _fields(line: str, step: ReadStepCsv) -> list[str]:
    separator, quote, escape = csv_characters(step)
    form = CsvFormat(separator=separator, quote=quote, escape=escape)
    records = CsvRecords(io.BytesIO(line.encode()), form, Limits(), errors="surrogateescape")
    try:
        return next(iter(records)).fields
    except (BadRow, StopIteration):  # a quote that goes on in the next line
        return []
