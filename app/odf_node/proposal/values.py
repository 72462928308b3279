"""The type of a column's texts: numbers, dates or times, judged by all its texts in the sample.

These are guesses, which the reader then tests. A type is proposed only if it keeps all that the
texts say; otherwise they stay text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from odf_protocol.columns import float_texts
from odf_protocol.errors import BadInput
from odf_protocol.sources.source_options import GROUP_SIGNS
from odf_protocol.sources.time_patterns import TimePattern, pattern_of

from .options import advice

INT64 = range(-(2**63), 2**63)
NULL_WORDS = frozenset(
    {
        *("NA", "N/A", "n/a", "#N/A", "#NA", "n.a.", "n. a.", "NULL", "null", "Null", "(null)"),
        *("None", "none", "nil", "missing", "\\N", "\\\\N", "<null>", "<NA>", "NaT"),
        *("-", "--", "–", "—", "?", ".", "..", "...", "…", ":"),
        *("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"),
    }
)
"""Words that are often used for a missing value."""
_GUARDED = re.compile(r'="[^"]*"|=-?[\d.]+')
"""A text that programs of tables guard by a formula."""
_READABLE = re.compile(r"(?i)[-+]?((\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?|inf|infinity|nan)", re.ASCII)
"""A number that the reader takes, and no program writes without being asked to."""
_COMPACT_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", re.ASCII)
_ROUNDED = re.compile(r"\d\.\d{1,5}E\+1\d")
"""A long whole number as programs of tables shorten it."""
_INT = re.compile(r" *-?\d{1,400} *", re.ASCII)
_ZEROS = re.compile(r" *-?0\d+ *", re.ASCII)
_FLOAT = re.compile(r" *-?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)? *|-?inf|nan|NaN", re.ASCII)
_CODE = re.compile(r" *\d+[eE]\d+ *", re.ASCII)
"""A number with an exponent as no program writes it, which may be a code."""
_THOUSANDS_OR_NOT = re.compile(r" *-?([1-9]\d{0,2}\.\d{3}|\d{1,3}) *", re.ASCII)
"""A number that a program writes, if its point is not between thousands."""
_LEADING = re.compile(r" *-?0\d.*", re.ASCII)
_ZERO_BEHIND = re.compile(r"\d+\.\d*[1-9]\d*0", re.ASCII)
_NO_MEASURE = re.compile(r"-9{3,9}(\.[09]{1,9})?", re.ASCII)
"""A number that instruments write for no value."""
_TRUTHS = ("true", "false")
_DIGITS = re.compile(r"\d")
_MONEY = r"(?:[€$£¥]|[A-Z]{3}|kr|%|‰)"
_BETWEEN = "[.,_" + "".join(GROUP_SIGNS.values()) + "]"
_FIGURES = rf"(?:\d|{_BETWEEN}){{1,60}}"
_SIGNED = re.compile(
    rf"[-+(]?{_MONEY} ?[-+]?{_FIGURES}\)?|[-+(]?{_FIGURES}{_MONEY}\)?|\({_FIGURES}\)|{_FIGURES}-"
)
_GROUPS = re.compile(rf"-?\d{{1,3}}({_BETWEEN}\d{{3}})+", re.ASCII)
_EITHER = re.compile(r"-?([1-9]\d{0,2}[.,]\d{3}|\d+)", re.ASCII)
"""A whole number, or one that may have thousands or a fraction."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?( ?([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?))?",
    re.ASCII,
)
_ZONED = re.compile(r"(.{8,40}?\d)(?: ?\(?([A-Za-z][A-Za-z0-9_/+-]{1,40}( [a-z]{1,20})?)\)?)?")
"""A text that ends in a word."""
_OFFSET_WORD = re.compile(r"(?i)[ap]m|[TWZ]\d*")
"""A word that belongs to a time."""
_DAYS = (
    *("d.M.yyyy", "d.M.yy", "d/M/yyyy", "M/d/yyyy", "d/M/yy", "M/d/yy", "d-M-yyyy", "M-d-yyyy"),
    *("yyyy/M/d", "yyyy.M.d", "yyyy-M-d", "d MMM yyyy", "d-MMM-yyyy", "d MMMM yyyy"),
    *("MMM d, yyyy", "MMMM d, yyyy", "MMM d yyyy", "dMMMyyyy"),
)
_CLOCKS = (" H:mm:ss", " H:mm", " H:mm:ss.SSS", "'T'H:mm", " h:mm a", " h:mm:ss a", ":H:mm:ss")
DATE_PATTERNS = _DAYS
TIME_PATTERNS = tuple(day + clock for day in _DAYS for clock in _CLOCKS)
_EPOCH_NAME = re.compile(r"(?i)(^|_)(ts|time|timestamp|epoch|unix)(_?(s|ms))?$|_at$")
_SECONDS = range(631_152_000, 4_102_444_800)
"""Seconds since 1970 of the years 1990 to 2099."""
_DAY_NAME = re.compile(r"(?i)(^|[_ ])(date|day|datum|tag)$")
_SHEET_DAYS = range(32_874, 73_051)
"""Days that spreadsheets count, of the years 1990 to 2099."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The type of a column; the patterns that fit all its texts if they are not ISO 8601; and a
    remark."""

    type: str
    patterns: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Signs:
    """How numbers are written: the sign before the fraction, and the one between thousands."""

    decimal: str = "."
    thousands: str = ""

    @property
    def _between(self) -> str:
        return f"[{GROUP_SIGNS.get(self.thousands, self.thousands)}]"

    @property
    def _pattern(self) -> re.Pattern[str]:
        point = re.escape(self.decimal)
        groups = rf"|\d{{1,3}}({self._between}\d{{3}})+" if self.thousands else ""
        return re.compile(rf"-?(\d+{groups})?({point}\d*)?([eE][-+]?\d+)?", re.ASCII)

    def plain(self, texts: Sequence[str]) -> Sequence[str] | None:
        """Return numbers as a program writes them; None if a text is no number of this form."""
        pattern = self._pattern
        if not all(pattern.fullmatch(text) and _DIGITS.search(text) for text in texts):
            return None
        swapped = texts
        if self.thousands:
            swapped = [re.sub(self._between, "", text) for text in swapped]
        return [text.replace(self.decimal, ".") for text in swapped]

    def contrary(self, texts: Sequence[str]) -> tuple[str, str] | None:
        """Return a text whose only sign is between thousands, and one whose only sign is before
        three digits of a fraction: with the signs the other way round, both are numbers, too."""
        if not self.thousands:
            return None
        grouped = re.compile(rf"-?[1-9]\d{{0,2}}{self._between}\d{{3}}", re.ASCII)
        parted = re.compile(rf"-?[1-9]\d{{0,2}}{re.escape(self.decimal)}\d{{3}}", re.ASCII)
        whole = next(filter(grouped.fullmatch, texts), None)
        fraction = next(filter(parted.fullmatch, texts), None)
        return None if whole is None or fraction is None else (whole, fraction)


PLAIN = Signs()
_CONTRARY = (
    "{!r} and {!r} beside each other, of which one may have thousands and one a fraction, or both "
    "the same, so text ({way} reads them as the other numbers of the file)"
)
OTHER_SIGNS = tuple(Signs(*pair) for pair in (",.", ".,", (",", ""), ", ", ".'", ". "))
"""Other forms of numbers, the most telling first."""


def guess(name: str, texts: Sequence[str], signs: Signs = PLAIN) -> Guess:
    """Return the narrowest type that fits all of these texts; the list may be empty."""
    if not texts:
        return Guess("String", note="no value in the sample, so text")
    distinct = list(dict.fromkeys(text.strip() for text in texts))
    if all(text.lower() in _TRUTHS for text in distinct):
        return Guess("Bool")
    numbers = distinct if signs == PLAIN else (signs.plain(distinct) or distinct)
    if numbers is not distinct and (pair := signs.contrary(distinct)):
        return Guess("String", note=_CONTRARY.format(*pair, way=_typed(name, "Float64")))
    if all(map(_INT.fullmatch, numbers)):
        return _integer(name, numbers)
    if all(map(_FLOAT.fullmatch, numbers)):
        return _fraction(name, numbers)
    if all(map(_DATE.fullmatch, distinct)):
        return _if_real("Date", "yyyy-MM-dd", distinct)
    if all(_TIME.fullmatch(text) or _DATE.fullmatch(text) for text in distinct):
        return _if_real("Timestamp", "yyyy-MM-dd", [text[:10] for text in distinct])
    for kind, patterns in (("Date", DATE_PATTERNS), ("Timestamp", TIME_PATTERNS)):
        if fitting := _fitting(patterns, distinct):
            return Guess(kind, fitting)
    return Guess("String", note=_remark(distinct))


def is_word_for_nothing(text: str) -> bool:
    """Whether a text often stands for a missing value."""
    return text.strip() in NULL_WORDS


def number_for_nothing(texts: Iterable[str]) -> str | None:
    """Return a number among others that may stand for a missing value, such as -999."""
    return next((text for text in texts if _NO_MEASURE.fullmatch(text.strip())), None)


def null_words(texts: Iterable[str], signs: Signs = PLAIN) -> frozenset[str]:
    """Return the words that mark a missing value in a column that otherwise is not text."""
    counted = Counter(texts)
    words = frozenset(text for text in counted if is_word_for_nothing(text))
    others = [text for text in counted if text not in words]
    if not any(_DIGITS.search(text) or text.lower() in _TRUTHS for text in others):
        return frozenset()  # nothing but such words: they may be names, as Null is
    if not words or guess("", others, signs).type == "String":
        return frozenset()
    return words


def signs_of(columns: Iterable[Sequence[str]]) -> Signs:
    """Return how most columns of numbers are written, if that is not as programs do it and no
    column contradicts; only with signs that the columns have."""
    found: Counter[Signs] = Counter()
    seen = [list(dict.fromkeys(text.strip() for text in texts)) for texts in columns]
    for distinct in seen:
        if not distinct or all(map(_INT.fullmatch, distinct)):
            continue
        if all(map(_FLOAT.fullmatch, distinct)):
            if all(map(_THOUSANDS_OR_NOT.fullmatch, distinct)):
                continue  # another column tells what the point is
            return PLAIN
        if not _is_ambiguous(distinct):
            found.update(signs for signs in OTHER_SIGNS if signs.plain(distinct) is not None)
    if not found:
        return PLAIN
    return _shown(found.most_common(1)[0][0], seen)


def _shown(signs: Signs, columns: Iterable[Sequence[str]]) -> Signs:
    """Return the signs without those that no column of such numbers has."""
    texts = [text for one in columns if signs.plain(one) is not None for text in one]
    thousands = signs.thousands
    if thousands and not any(re.search(signs._between, text) for text in texts):
        thousands = ""
    if thousands != "." and not any(signs.decimal in text for text in texts):
        return Signs(PLAIN.decimal, thousands)
    return Signs(signs.decimal, thousands)


def keeps(text: str) -> bool:
    """Whether a Float64 keeps the number that the text says."""
    return float_texts.keeps(text, float(text))


def is_day_first(pattern: str) -> bool | None:
    """Whether the day is before the month in a pattern whose figures are ambiguous; None for
    others."""
    if "MMM" in pattern or pattern.startswith(("y", "d.")):
        return None
    return pattern.startswith("d")


def _is_ambiguous(texts: Sequence[str]) -> bool:
    """Whether each sign in these texts may be before a fraction as well as between thousands."""
    if any(len(re.findall(_BETWEEN, text)) > 1 for text in texts):
        return False  # several groups are no fraction
    return any(all(map(one.fullmatch, texts)) for one in (_GROUPS, _EITHER))


def _remark(texts: Sequence[str]) -> str:
    """Return why texts are no numbers, dates or times, although half of them or more are."""
    if _is_ambiguous(texts):
        return (
            "numbers with thousands or fractions, which the sample does not tell, so text "
            "(--thousands or --decimal)"
        )
    if word := _word_for_nan(texts):
        way = advice("null", word)
        return f"numbers beside the word {word!r}, so text ({way} makes it no value)"
    if all(map(_READABLE.fullmatch, texts)):
        return "numbers with a plus sign, or infinity in words, so text (--type)"
    if zoned := on_zones(texts):
        return zoned
    for what, pattern in (("numbers", _FLOAT), ("dates", _DATE), ("times", _TIME)):
        others = [text for text in texts if not pattern.fullmatch(text)]
        if others and 2 * len(others) <= len(texts) and not _is_signed(texts):
            return (
                f"{what}, but for {len(others)} texts such as {others[0][:40]!r}, so text "
                "(--type, with --on-bad-rows quarantine)"
            )
    if all(map(_GUARDED.fullmatch, texts)):
        return 'texts are written as formulas (="…"), whose signs are part of them'
    if all(signs.plain(texts) is None for signs in OTHER_SIGNS):
        if _is_signed(texts):
            return "numbers with a sign of money or per cent, or in brackets, so text"
        return ""
    return "numbers of another form than others in the file, so text (--decimal, --thousands)"


def on_zones(texts: Sequence[str]) -> str:
    """Return why times stay texts that name zones in words; an empty text for others."""
    word = _zone_word(texts)
    told = "times beside words for a zone such as {!r}, of which some mean two offsets, so text"
    return "" if word is None else told.format(word)


def _zone_word(texts: Sequence[str]) -> str | None:
    """Return a word for a zone behind the times that these texts are."""
    found = [_ZONED.fullmatch(text) for text in texts]
    words = [match[2] for match in found if match is not None and match[2]]
    if not words or not all(found):
        return None
    times = [match[1] for match in found if match is not None]
    kind = guess("", times).type if not all(map(_OFFSET_WORD.fullmatch, words)) else ""
    return next(iter(words)) if kind == "Timestamp" else None


def _word_for_nan(texts: Sequence[str]) -> str | None:
    """Return the word for no number that stands beside numbers in a case of its own, as loggers
    write it."""
    word = next((one for one in texts if one.lower() == "nan" and not _FLOAT.fullmatch(one)), None)
    others = [text for text in texts if text != word]
    is_of_numbers = any(signs.plain(others) is not None for signs in (PLAIN, *OTHER_SIGNS))
    return word if others and is_of_numbers else None


def _is_signed(texts: Sequence[str]) -> bool:
    """Whether numbers have signs of money and the like, or some of them."""
    signed = [text for text in texts if _SIGNED.fullmatch(text)]
    others = [text for text in texts if not _SIGNED.fullmatch(text)]
    figures = re.compile(f"-?{_FIGURES}")
    return bool(signed) and all(map(figures.fullmatch, others))


def _typed(name: str, kind: str) -> str:
    """Return the option that gives a column a type."""
    return advice("types", f"{name or 'COLUMN'}={kind}")


def _integer(name: str, texts: Sequence[str]) -> Guess:
    if any(map(_ZEROS.fullmatch, texts)):
        return Guess("String", note="figures with leading zeros, so text")
    numbers = [int(text) for text in texts]
    if any(number not in INT64 for number in numbers):
        return Guess("String", note="numbers of more than 64 bits, so text")
    if _EPOCH_NAME.search(name):
        for factor, unit in ((1, "seconds"), (1000, "milliseconds")):
            if all(number // factor in _SECONDS for number in numbers):
                note = f"looks like {unit} since 1970; kept as a number"
                return Guess("Int64", note=note)
    if all(map(_COMPACT_DAY.fullmatch, texts)):
        as_date = _typed(name, "Date")
        return Guess("Int64", note=f"looks like days (yyyyMMdd); kept as a number ({as_date})")
    if _DAY_NAME.search(name) and all(number in _SHEET_DAYS for number in numbers):
        return Guess("Int64", note="looks like days of a spreadsheet; kept as a number")
    return Guess("Int64")


def _fraction(name: str, texts: Sequence[str]) -> Guess:
    if any(map(_LEADING.fullmatch, texts)):
        return Guess("String", note="figures with leading zeros, so text")
    if all(map(keeps, texts)):
        code = next(filter(_CODE.fullmatch, texts), None)
        as_text = f"{_typed(name, 'String')} keeps texts"
        if code:
            return Guess("Float64", note=f"{code!r} is read as a number ({as_text})")
        if all(map(_ROUNDED.fullmatch, texts)):
            note = (
                f"{texts[0]!r} may be a code of many digits, which a program of tables has "
                "rounded: they are not in the file"
            )
            return Guess("Float64", note=note)
        if cut := _cut_zero(texts):
            note = f"{cut!r} is read as {float(cut)!r} ({as_text}, as versions need)"
            return Guess("Float64", note=note)
        if all(map(_THOUSANDS_OR_NOT.fullmatch, texts)):
            shown = next(text.strip() for text in texts if "." in text)
            note = f"{shown!r} is read with a fraction (--thousands . if it has none)"
            return Guess("Float64", note=note)
        return Guess("Float64")
    scale = max(len(text.partition(".")[2].strip()) for text in texts)
    return Guess(
        "String",
        note="numbers of more digits than a Float64 keeps, so text "
        f"({_typed(name, f'Decimal(38,{min(scale, 38)})')} keeps them as numbers)",
    )


def _cut_zero(texts: Sequence[str]) -> str | None:
    """Return a text whose last zero a number would lose although the writer did not write all with
    as many digits: it may be a version or a number of a section, such as 1.10."""
    fractions = [text.strip().partition(".")[2] for text in texts if "e" not in text.lower()]
    if len({len(one) for one in fractions if one}) < 2:
        return None
    return next((one.strip() for one in texts if _ZERO_BEHIND.fullmatch(one.strip())), None)


def _if_real(kind: str, pattern: str, days: Sequence[str]) -> Guess:
    if _reads(_pattern(pattern), days):
        return Guess(kind)
    return Guess("String", note="looks like dates, but names days that are none, so text")


def _fitting(patterns: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns that read all texts."""
    first = texts[:1]
    if not _DIGITS.search(first[0]):
        return ()
    likely = [one for one in patterns if _reads(_pattern(one), first)]
    return tuple(one for one in likely if _reads(_pattern(one), texts))


def _reads(pattern: TimePattern, texts: Sequence[str]) -> bool:
    try:
        for text in texts:
            pattern.read(text)
    except (ValueError, OverflowError):
        return False
    return True


@lru_cache(maxsize=256)
def _pattern(text: str) -> TimePattern:
    found = pattern_of(text)
    if found is None:
        raise BadInput(f"{text} is no pattern")
    return found
