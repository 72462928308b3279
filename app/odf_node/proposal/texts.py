"""The shape of a CSV file: what separates its fields, which lines are rows, what names the columns.

Fields are separated by the reader's own tokenizer. What the file leaves open is a question.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from odf_protocol.columns.column_names import MAX_UNIT_CHARS, bare_unit
from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStepCsv
from odf_protocol.sources.csv_header import SEPARATORS, told_separator

from ..client.nodes.limits import one_line
from .headers import (
    MAX_CELLS,
    MAX_COLUMNS,
    NoRecords,
    Records,
    differs_from,
    header_of,
    may_name_columns,
    names_below,
    units_below,
)
from .options import Choices
from .sample import Sample

MARK = "\ufeff"
SEP_BYTES = 16
"""Bytes of a first line that tells the separator, and more."""
SNIFFED_RECORDS = 200
SNIFFED_BYTES = 64 << 10
MAX_TITLES = 50
"""Records at the beginning that may be titles."""
SHOWN_LINES = 3
SHOWN_CHARS = 60
_OPENING = re.compile(rb"(?:^|(?<=[,;\t|\n]))'")
_SINGLE_QUOTED = re.compile(rb"(?:^|(?<=[,;\t|\n]))'(?:[^'\n]|'')*'(?=[,;\t|\r\n]|\Z)")
"""A field in single quotes, and the beginning of one."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_ESCAPED = re.compile(r"\\[\\tnrbfv0]")
_DIGIT = re.compile(r"[-+]?\d")
_GAP = re.compile(r"\S {2,}\S")
_OTHER_SEPARATORS = re.compile(r"[ \x01\x1f]+|[:^~§!#/]+")


@dataclass(frozen=True, slots=True)
class TextRecord:
    """A record, and the number of the line on which it begins."""

    number: int
    fields: Sequence[str]
    raw: str

    def __str__(self) -> str:
        return f"line {self.number}, {one_line(self.raw, SHOWN_CHARS)!r}"

    @property
    def is_title(self) -> bool:
        """Whether a single one of several fields has a text, or none."""
        filled = sum(1 for cell in self.fields if cell.strip())
        return len(self.fields) > (2 if filled else 1) and filled <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeForm:
    """How fields are separated; without `escape` only doubled quotes work."""

    separator: str
    quote: str
    escape: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """The records of a file that can be rows, header included, and the others."""

    lines: Sequence[TextRecord]
    width: int
    titles: Sequence[TextRecord]
    footers: Sequence[TextRecord]
    odd: Sequence[TextRecord]
    """Records between the rows that have more or fewer fields."""
    is_ended: bool
    """Whether the last of the lines is the last record of the file."""


def texts_of(sample: Sample, choices: Choices) -> Records:
    """Return the columns of a CSV file as texts.

    Raises:
        NoRecords, NotUtf8, WebPage.
    """
    if sample.is_workbook:
        data, warnings = _sheet(sample, choices)
    else:
        data, warnings = _text(sample, choices), ()
    told = told_separator(_LINE_END.split(data[:SEP_BYTES], 1)[0].decode(errors="replace"))
    marks = int(told is not None)
    skip = max(choices.skip or 0, marks)
    form, notes = _form(sample, data, choices, told, skip)
    lines, cut = _lines(data, form, skip, sample)
    whole = sample.is_whole and cut is None
    some = _without_footer(data, lines, choices.footer) if choices.footer and whole else lines
    body = _body(some, choices, is_whole=whole)
    notes += _of_fields(data, body, form, choices)
    head, footer = body.lines[0], choices.footer or 0
    if body.footers and not choices.sets_aside:
        footer = _full_lines(data, body.footers[0].number)
    questions = _odd_lines(sample, body, form, choices, footer)
    names, units = _bare(head), choices.units or 0
    others = [line.fields for line in body.lines[1:] if _bare(line) != names]
    header = header_of([head.fields, *others], choices.header)
    questions += () if header.is_there else _narrow_header(body)
    first = [head.fields] if header.is_there else []
    rest = others if first else [line.fields for line in body.lines]
    if choices.units is choices.skip is None and first and names_below(first[0], rest):
        questions, choices = questions + _names_below(body), replace(choices, units=units)
    elif choices.units is None and first and units_below(first[0], rest):
        units = 1
        notes.append(f"left out as a line of units: {_shown(body.lines[1:2])} (--units 0)")
    repeated = [line for line in body.lines[1:] if first and _bare(line) == names]
    if repeated:
        notes.append(f"left out, since they repeat the header: {_shown(repeated)}")
    told_units, rest = _units(header.names, rest[:units]), rest[units:]
    options: dict[str, Any] = {
        "odf-node/skipLines": (head.number - 1 if body.titles else skip) - marks,
        "odf-node/unitLines": units,
        "odf-node/footerLines": footer,
        "odf-node/repeatedHeader": "skip" if repeated else None,
        "odf-node/csvHeader": "position" if header.by_position else None,
        "odf-node/sheet": choices.sheet,
    }
    return Records(
        names=header.names,
        columns=tuple(tuple(row[at] or None for row in rest) for at in range(body.width)),
        content=_content(sample, data, cut, choices),
        is_whole=whole,
        step=_step(sample, form, choices, header=header.is_there),
        options={key: value for key, value in options.items() if value},
        units=told_units,
        notes=(*warnings, *notes, *header.notes),
        questions=(*questions, *header.questions, *_strange_rows(body, rest, choices, first)),
    )


def _units(names: Sequence[str], lines: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return units of columns, if there is one line of them: of several, some say other things."""
    if len(lines) != 1:
        return {}
    told = {name: bare_unit(cell) for name, cell in zip(names, lines[0], strict=True)}
    fits = {name: unit for name, unit in told.items() if unit and unit.isprintable()}
    return {name: unit for name, unit in fits.items() if len(unit) <= MAX_UNIT_CHARS}


def _step(sample: Sample, form: TimeForm, choices: Choices, *, header: bool) -> ReadStepCsv:
    return ReadStepCsv(
        header=header,
        separator=None if form.separator == "," else form.separator,
        quote=None if form.quote == '"' else form.quote,
        escape=form.escape or "",
        encoding=sample.declared(choices.encoding),
    )


def _text(sample: Sample, choices: Choices) -> bytes:
    """Return the sample in UTF-8. Raises `NotUtf8`, and `WebPage` for what is no CSV."""
    from odf_workers.stages.preview import refuse_as_csv  # not in the service

    data = sample.utf8(choices.encoding)
    if choices.header is not False:
        try:
            refuse_as_csv(data)
        except BadInput as bad:
            told = f"{sample.name}: {bad.message} (--format names another format)"
            raise BadInput("WebPage", told, **bad.facts) from None
    return data


def _sheet(sample: Sample, choices: Choices) -> tuple[bytes, tuple[str, ...]]:
    """Return a sheet of a workbook as CSV, and remarks. Raises `NoRecords`."""
    from odf_workers.stages.preview import sheet_csv  # not in the service

    try:
        return sheet_csv(sample.content, choices.sheet)
    except BadInput as bad:
        message = bad.message.replace("odf-node/sheet", "--sheet")
        raise NoRecords(f"{sample.name}: {message}", **bad.facts) from None


def _content(sample: Sample, data: bytes, cut: int | None, choices: Choices) -> bytes | Path:
    """Return what the reader reads of a sample, of which `data` is the text."""
    if cut is None:
        return sample.content
    return data[:cut] if sample.is_workbook else sample.encoded(data[:cut], choices.encoding)


def _form(
    sample: Sample, data: bytes, choices: Choices, told: str | None, skip: int
) -> tuple[TimeForm, list[str]]:
    """Return how fields are separated, and remarks."""
    form = TimeForm(
        separator=choices.separator or told or ("," if sample.is_workbook else ""),
        quote=choices.quote or '"',
        escape=choices.escape or None,
    )
    notes = []
    if choices.quote is None and not sample.is_workbook and _is_single_quoted(data):
        form = replace(form, quote="'")
        notes.append("fields are in single quotes, which are left out (--quote)")
    told_wrong = (
        bool(told) and choices.separator is None and _widths(data, form, skip).keys() <= {1}
    )
    if not form.separator or told_wrong:
        form = replace(form, separator=_separator(sample, data, form, skip))
        if told_wrong and form.separator != told:
            notes.append(f"the first line tells {told!r}, and {form.separator!r} separates fields")
    if choices.escape is None and _needs_escape(data, form, skip):
        notes.append("a backslash escapes the quote behind it (--escape none)")
        form = replace(form, escape="\\")
    elif form.escape is None and (line := _quote_inside(data, form)) is not None:
        notes.append(f"line {line}: a quote inside of quotes is not doubled (--escape, --quote)")
    return form, notes


def _is_single_quoted(data: bytes) -> bool:
    """Whether fields at the beginning are in single quotes: no quotes are double, and each that
    begins a field has another at its end."""
    some = data[:SNIFFED_BYTES]
    if b'"' in some:
        return False
    begun, whole = len(_OPENING.findall(some)), len(_SINGLE_QUOTED.findall(some))
    return whole > 1 and begun - whole <= (len(some) < len(data))


def _separator(sample: Sample, data: bytes, form: TimeForm, skip: int) -> str:
    """Return the separator that splits most of the first records into equally many fields, as many
    as possible."""
    if sample.name.lower().endswith((".tsv", ".tab")) and b"\t" in data:
        return "\t"
    best, most = ",", (0.0, 1, 0.0)
    for separator in SEPARATORS:
        widths = _widths(data, replace(form, separator=separator), skip)
        (width, count), *_ = widths.most_common(1) or [(1, 0)]
        share = count / max(1, widths.total())
        found = (min(1.0, round(share + 0.1, 1)), width, share)
        if width > 1 and found > most:
            best, most = separator, found
    return best


def _widths(data: bytes, form: TimeForm, skip: int) -> Counter[int]:
    try:
        some = islice(_separated(data, form), SNIFFED_RECORDS)
        return Counter(len(record.fields) for record in some if record.number > skip)
    except BadInput:
        return Counter()


def _needs_escape(data: bytes, form: TimeForm, skip: int) -> bool:
    """Whether the first records are whole, equally wide, and without text behind a closing quote,
    only if backslashes escape quotes."""
    if b"\\" + form.quote.encode() not in data:
        return False
    if _quote_inside(data, form, rb"\\") is not None:
        return True
    plain = _widths(data, form, skip)
    escaped = _widths(data, replace(form, escape="\\"), skip)
    return bool(escaped) and len(escaped) == 1 and plain.keys() != escaped.keys()


def _quote_inside(data: bytes, form: TimeForm, before: bytes = b"") -> int | None:
    """Return the first line of a field in quotes at the beginning in which a quote, behind a
    pattern, is neither doubled nor the end."""
    separator, sign = (re.escape(each).encode() for each in (form.separator, form.quote))
    begin = rb"(?:^|(?<=[\n" + separator + b"]))" + sign
    inside = b"(?:[^" + sign + b"]|" + sign * 2 + b")*" + before + sign
    after = b"(?=[^" + separator + sign + rb"\r\n])"
    some = data[:SNIFFED_BYTES]
    found = re.search(begin + inside + after, some)
    return None if found is None else some.count(b"\n", 0, found.start()) + 1


def _separated(data: bytes, form: TimeForm) -> Any:
    from odf_workers.stages.preview import csv_records  # not in the service

    for number, fields, raw in csv_records(
        data, separator=form.separator, quote=form.quote, escape=form.escape
    ):
        yield TextRecord(number, fields, raw.rstrip("\r\n"))


def _lines(
    data: bytes, form: TimeForm, skip: int, sample: Sample
) -> tuple[list[TextRecord], int | None]:
    """Return the records after the skipped lines, and the length of the bytes that have them, if
    that is not the whole sample.

    Raises:
        NoRecords.
    """
    lines: list[TextRecord] = []
    cells = 0
    try:
        for line in _separated(data, form):
            if line.number <= skip:
                continue
            cells += len(line.fields)
            lines.append(line)
            if cells > MAX_CELLS:
                return lines[:-1], _start_of(data, line.number)
    except BadInput as bad:
        if sample.is_whole or not lines:
            raise NoRecords(f"{bad.message} (--quote takes another sign)", **bad.facts) from None
        return lines, _start_of(data, _line_of(bad, lines))
    if not lines:
        raise NoRecords(f"{sample.name} has no records")
    if sample.is_whole or len(lines) == 1:
        return lines, None
    last = lines.pop()  # it may be cut
    return lines, _start_of(data, last.number)


def _line_of(bad: BadInput, lines: Sequence[TextRecord]) -> int:
    line = bad.facts.get("line")
    return line if isinstance(line, int) else lines[-1].number + 1


def _start_of(data: bytes, line: int) -> int:
    """Return the number of bytes before a line."""
    ends = _LINE_END.finditer(data)
    last = next(islice(ends, line - 2, None), None) if line > 1 else None
    return last.end() if last else 0


def _body(lines: Sequence[TextRecord], choices: Choices, *, is_whole: bool) -> _Body:
    """Tell rows from titles before them, and from lines after the last row. Raises `NoRecords`."""
    widths = Counter(len(line.fields) for line in lines)
    width = max(widths, key=lambda one: (widths[one], one))
    fits = [len(line.fields) == width and not (line.is_title and len(lines) > 2) for line in lines]
    start, end = 0, len(lines)
    if choices.skip is None:
        start = next((at for at, fit in enumerate(fits[:MAX_TITLES]) if fit), 0)
    if is_whole and choices.footer is None and not choices.sets_aside:
        end = next((at for at in range(len(lines), start, -1) if fits[at - 1]), len(lines))
    inside = lines[start:end]
    if width > MAX_COLUMNS:
        raise NoRecords(f"the file has {width} columns; {MAX_COLUMNS} are looked at at most")
    return _Body(
        lines=[line for line in inside if len(line.fields) == width],
        width=width,
        titles=lines[:start],
        footers=lines[end:],
        odd=[line for line in inside if len(line.fields) != width],
        is_ended=is_whole and end == len(lines),
    )


def _of_fields(data: bytes, body: _Body, form: TimeForm, choices: Choices) -> list[str]:
    """Return remarks about titles, and signs that may separate or surround fields and are part of
    them."""
    notes = [f"left out before the header: {_shown(body.titles)}"] if body.titles else []
    notes += _of_one_column(data, body, form) if body.width == 1 else []
    notes += _of_databases(body, form)
    notes += _of_signs(body)
    blank = _blank_before_quotes(body, form) if choices.quote is None else None
    if blank is not None:
        notes.append(
            f"{blank}: a blank stands before quotes, so both are kept as parts of the text"
        )
    return notes


def _of_databases(body: _Body, form: TimeForm) -> list[str]:
    """Return remarks on signs of exports that are no signs of CSV: backslashes outside of quotes,
    beside the word for no value of databases, and empty quotes beside texts without quotes."""
    notes = []
    if any(cell.strip("\\") == "N" != cell for line in body.lines for cell in line.fields):
        bare = (line for line in body.lines if form.quote not in line.raw)
        if line := next((line for line in bare if any(map(_is_escaped, line.fields))), None):
            notes.append(f"{line}: backslashes outside of quotes are parts of the texts")
    cut = [(line, line.raw.split(form.separator)) for line in body.lines]
    whole = [(line, cells) for line, cells in cut if len(cells) == body.width]
    empty = {at: line for line, cells in reversed(whole) for at in _empty(cells, form.quote)}
    for at, line in sorted(empty.items(), key=lambda found: found[1].number)[:1]:
        texts = (cells[at].strip() for _, cells in whole[1:])
        if any(text and text[0] != form.quote and not _DIGIT.match(text) for text in texts):
            notes.append(f"{line}: empty quotes are no value, as fields without a text are")
    return notes


def _of_signs(body: _Body) -> list[str]:
    """Return remarks on what nobody sees: rows of separators, marks of the byte order of files that
    were put together, and zero bytes."""
    names, notes = _bare(body.lines[0]), []
    empty = [line for line in body.lines if body.width > 1 and not any(map(str.strip, line.fields))]
    notes += [f"rows without any value: {len(empty)}, the first on {empty[0]}"] if empty else []
    for sign, what in ((MARK, "a mark of the byte order"), ("\0", "a zero byte")):
        inside = (line for line in body.lines[1:] if any(sign in cell for cell in line.fields))
        if line := next((line for line in inside if _bare(line) != names), None):
            notes.append(f"{line}: {what} is kept as a part of the text")
    return notes


def _is_escaped(cell: str) -> bool:
    return cell.strip("\\") != "N" and _ESCAPED.search(cell) is not None


def _empty(cells: Sequence[str], quote: str) -> list[int]:
    return [at for at, cell in enumerate(cells) if cell == quote * 2]


def _of_one_column(data: bytes, body: _Body, form: TimeForm) -> list[str]:
    """Return remarks about a file of one column: on blank lines, which may stand for no value, and
    on a sign that may separate fields, since all lines have it equally often."""
    blank = sum(1 for line in _LINE_END.split(data)[:-1] if not line.strip())
    notes = [f"{blank} blank lines are no rows"] if blank else []
    found = {tuple(_OTHER_SEPARATORS.findall(line.fields[0])) for line in body.lines}
    count = {(len(signs), *{sign[0] for sign in signs}) for signs in found}
    if len(body.lines) > 1 and len(count) == 1 and len(only := next(iter(count))) == 2:
        told = "fields of even width" if len(found) > 1 else f"fields between {only[1]!r}"
        notes.append(f"one column was found; all lines may have {only[0] + 1} {told} (--separator)")
    elif len(body.lines) > 1 and all(_GAP.search(line.fields[0].strip()) for line in body.lines):
        notes.append(
            "one column was found; blanks stand in all lines as between fields of even width"
        )
    elif len(between := _widths(data, replace(form, separator=" "), body.lines[0].number)) == 1:
        (width,), names = between, len(body.lines[0].raw.split())
        if width > 1 and names in (width, width - 1) and names > 1:
            told = f"all rows have {width} fields between blanks (--separator ' ')"
            notes.append(f"one column was found; {told}")
    return notes


def _blank_before_quotes(body: _Body, form: TimeForm) -> str | None:
    """Return the first line with a field in quotes behind a blank, if it is read as it stands."""
    for line in body.lines:
        for cell in line.fields:
            text = cell.strip()
            if cell[:1] == " " and len(text) > 1 and text[0] == text[-1] == form.quote:
                return str(line)
    return None


def _names_below(body: _Body) -> tuple[str, ...]:
    """Return the question whether the second line has the names, and the first is a title."""
    first, second, *_ = [line for line in body.lines if any(map(str.strip, line.fields))]
    asked = f"do the names of the columns stand on {second}? --skip {second.number - 1} takes them "
    return (f"{asked}from there, --skip {first.number - 1} from {first}",)


def _full_lines(data: bytes, start: int) -> int:
    """Return the number of lines that are not blank, from the line `start` on."""
    rest = data[_start_of(data, start) :]
    return sum(1 for line in _LINE_END.split(rest) if line.strip())


def _without_footer(data: bytes, lines: Sequence[TextRecord], count: int) -> Sequence[TextRecord]:
    """Leave out records in the last `count` lines that are not blank. Raises `NoRecords`."""
    numbered = enumerate(_LINE_END.split(data), 1)
    full = deque((number for number, line in numbered if line.strip()), maxlen=count)
    kept = [line for line in lines if line.number < full[0]]
    if not kept:
        raise NoRecords("no line remains before the footer (--footer)")
    return kept


def _odd_lines(
    sample: Sample, body: _Body, form: TimeForm, choices: Choices, footer: int
) -> tuple[str, ...]:
    """Return questions about lines that are no rows. Raises `NoRecords` for one among the rows."""
    if body.odd and not choices.sets_aside:
        odd = body.odd[0]
        raise NoRecords(
            f"line {odd.number} of {sample.name} has {len(odd.fields)} fields, others have "
            f"{body.width}: {one_line(odd.raw, SHOWN_CHARS)!r}. If it is no row, --on-bad-rows "
            f"quarantine keeps it apart; fields were separated by {form.separator!r} (--separator, "
            "and --quote for signs around fields, take others)",
            line=odd.number,
        )
    if not body.footers or choices.sets_aside:
        return ()
    told = f"after the last row: {_shown(body.footers)}; --footer {footer} leaves such lines out"
    return (f"{told}, --on-bad-rows quarantine keeps them apart",)


def _bare(line: TextRecord) -> list[str]:
    return [cell.strip().removeprefix(MARK).strip() for cell in line.fields]


def _strange_rows(
    body: _Body, rest: Sequence[Sequence[str]], choices: Choices, header: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """Return questions about a first row, below the header, and a last one that the types of all
    others tell from them."""
    found = []
    if choices.sets_aside or not rest:
        return ()
    line = body.lines[min(1, len(body.lines) - 1)]
    is_first = bool(header) and line.fields is rest[0]
    if is_first and choices.units is None:
        why = None
        if differs_from(rest[0], rest[1:]):
            why = "has text where all other rows have numbers or dates"
        elif may_name_columns(header[0], rest):
            why = "may be a second header"
        if why is not None:
            found.append(f"{line} {why}: --units 1 leaves it out, --units 0 keeps it")
    strange = differs_from(rest[-1], rest[:-1]) or _is_apart(body.lines)
    if body.is_ended and choices.footer is None and strange:
        found.append(
            f"the last row, {body.lines[-1]}, is not like the others: --footer 1 leaves it out, "
            "--footer 0 keeps it"
        )
    return tuple(found)


def _is_apart(lines: Sequence[TextRecord]) -> bool:
    """Whether a blank line, the only one, stands before the last record, as before a source."""
    gaps = [
        after.number - one.number - len(one.raw.splitlines()) for one, after in pairwise(lines[1:])
    ]
    return len(gaps) > 1 and gaps[-1] > 0 and not any(gaps[:-1])


def _narrow_header(body: _Body) -> tuple[str, ...]:
    """Return a question about a line before the first row that may be a header of other width."""
    if not body.titles or body.titles[-1].is_title:
        return ()
    line = body.titles[-1]
    found = f"{line} has {len(line.fields)} fields, and the rows have {body.width} (--separator)"
    return (f"{found}: if it is no header, --skip {line.number} leaves it out",)


def _shown(lines: Sequence[TextRecord]) -> str:
    more = f" and {len(lines) - SHOWN_LINES} more" if len(lines) > SHOWN_LINES else ""
    return "; ".join(map(str, lines[:SHOWN_LINES])) + more
