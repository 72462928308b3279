"""Matches the fields of a CSV file to the columns of a declared schema, by the file's header.

The specification reads columns by position and ignores the header. The rows of a file with
another column order would then be stored under the wrong names, so the header is compared:

- It has all declared names, in any order: columns are matched by name.
- No declared name is at the position of another column, and no name differs from the declared one
  only in its brackets, as units do: columns are matched by position, and other names count as
  renamings, which the receipt lists as warnings.
- Anything else is refused.

Names are compared without case and surrounding blanks, unless names in the schema differ only
in those. A source can choose another rule by an attribute (`source_options.py`).

Names of text encodings: many spellings, one codec.

Sources name the encoding of their files, `.cpg` files that of a shapefile's attributes, each in a
spelling of its own: `ISO-8859-1`, `88591`, `8859-15`, `885915`, `windows-1252`, `ANSI 1252`,
`1252`. Only codecs of this table are used: Python has others, which are no encodings of text or
take far more time than their input has bytes.

Media types of workbooks by the extension of their files; sources of Csv read a sheet of them.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from ..columns.column_names import plain_unit
from ..errors import BadInput
from .source_options import HeaderRule

SHOWN_NAMES = 10
"""Limit of columns that an error or a warning names."""
SEPARATORS = (",", ";", "\t", "|")
_SEP_LINE = re.compile(r"\ufeff?(\"?)sep=([,;|\t])\1[\r\n]*", re.IGNORECASE)


def told_separator(line: str) -> str | None:
    """Return the separator that a first line such as `sep=;` tells to spreadsheets; None for other
    lines."""
    found = _SEP_LINE.fullmatch(line)
    return None if found is None else found[2]


def likely_separator(line: str, width: int) -> str | None:
    """Return the sign that cuts a line of one field into the wanted number of fields."""
    signs = SEPARATORS if width > 1 else ()
    return next((sign for sign in signs if line.count(sign) == width - 1), None)


class HeaderMismatch(BadInput):
    """The columns of a file are not those of the schema, and the match is ambiguous."""


@dataclass(frozen=True, slots=True)
class Matched:
    """`order[i]` is the index of the field that contains declared column `i`."""

    order: tuple[int, ...]
    renamed: tuple[tuple[str, str], ...] = ()
    """Pairs of header name and declared name that differ."""

    @property
    def in_order(self) -> bool:
        return self.order == tuple(range(len(self.order)))

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the publisher of a file that is read nevertheless."""
        if not self.renamed:
            return ()
        pairs = [f"`{found}` as `{wanted}`" for found, wanted in self.renamed[:SHOWN_NAMES]]
        more = ", …" if self.renamed[SHOWN_NAMES:] else ""
        return (f"columns are taken by position: {', '.join(pairs)}{more}",)


def match(
    header: Sequence[str], declared: Sequence[str], rule: HeaderRule = HeaderRule.NAMES
) -> Matched:
    """Match fields to columns.

    Raises:
        HeaderMismatch.
    """
    if len(header) != len(declared) or _is_uncut(header, declared):
        raise _of_other_columns(header, declared)
    own = tuple(range(len(declared)))
    if rule is HeaderRule.POSITION:
        return Matched(own)
    if rule is HeaderRule.STRICT:
        if list(header) != list(declared):
            raise _mismatch(header, declared, STRICTLY, "")
        return Matched(own)
    return _by_names(header, declared)


def _by_names(header: Sequence[str], declared: Sequence[str]) -> Matched:
    """Match as many fields as there are columns. Raises `HeaderMismatch`."""
    is_exact = sorted(header) == sorted(declared) and len(set(header)) == len(header)
    named = header if is_exact or not _has_no_names(header) else distinct_names(header)
    found, wanted = _keys(named, declared)
    if sorted(found) == sorted(wanted) and len(set(wanted)) == len(wanted):
        positions = {name: at for at, name in enumerate(found)}
        order = tuple(positions[name] for name in wanted)
        if named is not header and not _are_alike(header, [named[at] for at in order], declared):
            raise _mismatch(header, declared, "names that differ in case only are in another order")
        return Matched(order)
    for at, name in enumerate(found):
        if name in wanted and wanted[at] != name:
            raise _mismatch(
                header,
                declared,
                f"`{header[at]}` is declared as another column than number {at + 1}",
            )
    pairs = zip(found, wanted, header, declared, strict=True)
    renamed = tuple((theirs, ours) for f, w, theirs, ours in pairs if f != w)
    for theirs, _ in renamed:
        if named is not header and key_of_name(theirs) in wanted:
            raise _mismatch(header, declared, f"`{theirs}` stands in the header twice")
    for theirs, ours in renamed:
        if _is_other_in_brackets(theirs, ours):
            raise _mismatch(
                header, declared, f"`{theirs}` says another unit or kind of values than `{ours}`"
            )
    return Matched(tuple(range(len(declared))), renamed)


def _is_uncut(header: Sequence[str], declared: Sequence[str]) -> bool:
    """Whether the only field of a header has several names in it, one of them the declared one."""
    if len(declared) != 1 or key_of_name(header[0]) == key_of_name(declared[0]):
        return False
    return _separator(header[0], _keys(header, declared)[1]) is not None


_OPENS = {")": "(", "]": "["}


def _is_other_in_brackets(one: str, other: str) -> bool:
    """Return whether both names end in brackets, have other words in them, and the same before."""
    parts = []
    for name in map(key_of_name, (one, other)):
        at = name.rfind(_OPENS.get(name[-1:], "\0"))
        if at < 1:
            return False
        parts.append((name[:at].strip(), plain_unit(name[at:])))
    return parts[0][0] == parts[1][0] and parts[0][1] != parts[1][1]


def distinct_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns that differ as names are compared: a blank one is called by its
    position, a repeated one gets a number."""
    taken, seen = {key_of_name(name) for name in given}, set[str]()
    following: dict[str, int] = {}
    names: list[str] = []
    for at, cell in enumerate(given, 1):
        shown = "".join(one if one.isprintable() else " " for one in cell).strip()
        plain = shown or f"column_{at}"
        name, key = plain, key_of_name(plain)
        if key in seen or (not shown and key in taken):
            number = following.get(key, 2)
            while (folded := key_of_name(f"{plain}_{number}")) in taken or folded in seen:
                number += 1
            name = f"{plain}_{number}"
            following[key] = number + 1
        seen.add(key_of_name(name))
        names.append(name)
    return tuple(names)


def names_columns(record: Sequence[str], declared: Sequence[str]) -> bool:
    """Return whether a record is a header and not a row, because it has all declared names; that
    of a single column as it is declared."""
    if len(record) != len(declared) or not declared:
        return False
    if len(declared) == 1:
        return list(record) == list(declared)
    found, wanted = _keys(record, declared)
    return sorted(found) == sorted(wanted)


def key_of_name(name: str) -> str:
    """Return a name as it is compared: without case and blanks, and with accents as parts of their
    letters, since programs write them either way."""
    return unicodedata.normalize("NFC", name.strip().casefold())


def _are_alike(header: Sequence[str], named: Sequence[str], declared: Sequence[str]) -> bool:
    """Whether the names of a header, some of which differ in case only, have the case of the
    declared ones; those without another case do not count."""
    exact: dict[str, set[str]] = {}
    for name in header:
        exact.setdefault(key_of_name(name), set()).add(name.strip())
    if all(len(names) == 1 for names in exact.values()):
        return True
    pairs = zip(named, declared, strict=True)
    return all(one.strip() == other.strip() for one, other in pairs)


def _has_no_names(header: Sequence[str]) -> bool:
    """Whether a name of a header is blank, or stands in it twice, as names are compared."""
    keys = list(map(key_of_name, header))
    return not all(keys) or len(set(keys)) < len(keys)


def _keys(header: Sequence[str], declared: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names as they are compared, exactly if that would merge some."""
    found, wanted = (list(map(key_of_name, names)) for names in (header, declared))
    if len(set(found)) == len(found) and len(set(wanted)) == len(wanted):
        return found, wanted
    return list(header), list(declared)


def _of_other_columns(header: Sequence[str], declared: Sequence[str]) -> HeaderMismatch:
    """Return the error of a header with more or fewer names, which tells the difference."""
    found, wanted = _keys(header, declared)
    new = [name for key, name in zip(found, header, strict=True) if key not in wanted]
    lost = [name for key, name in zip(wanted, declared, strict=True) if key not in found]
    parts = []
    cuts = _separator(header[0], wanted) if len(header) == 1 else None
    counts = likely_separator(header[0], len(declared)) if len(header) == 1 else None
    if sign := cuts or counts:
        into = "declared names" if cuts else f"the {len(declared)} fields that are declared"
        parts.append(
            f"{sign!r} cuts the header into {into}, so the file has another separator than "
            "its source declares: write the file with that one, or define the source anew with "
            f"`separator: {sign!r}` in its read step"
        )
        new, lost = [], []
    if new:
        parts.append(
            f"the header has {_named('a new column', 'new columns', new)}, which SetDataSchema and "
            "a new definition of the source (AddPushSource, SetPollingSource) add, or a post with "
            "addColumns (--add-columns)"
        )
    if lost:
        parts.append(f"the header lacks {_named('the column', 'the columns', lost)}")
    counts = f"{len(declared)} columns are declared, and the header has {len(header)}"
    return HeaderMismatch(
        "; ".join([*parts, counts]),
        header=list(header[:SHOWN_NAMES]),
        declared=list(declared[:SHOWN_NAMES]),
    )


def _separator(header: str, wanted: Sequence[str]) -> str | None:
    """Return the sign that cuts a header of one field into two declared names or more, or into the
    only one and others."""
    for sign in SEPARATORS:
        found = {key_of_name(name.strip('"')) for name in header.split(sign)}
        if len(found) > 1 and len(found & set(wanted)) >= min(2, len(wanted)):
            return sign
    return None


def _named(one: str, several: str, names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name[:100]}`" for name in names[:SHOWN_NAMES])
    more = ", …" if names[SHOWN_NAMES:] else ""
    return f"{one if len(names) == 1 else several} {shown}{more}"


STRICTLY = "a strict header has the declared names in their order, letter by letter"
NAMES = ". Name all columns as declared, in any order, or none of them"


def _mismatch(
    header: Sequence[str], declared: Sequence[str], reason: str, advice: str = NAMES
) -> HeaderMismatch:
    def shown(names: Sequence[str]) -> str:
        return ", ".join(name[:100] for name in names[:SHOWN_NAMES])

    return HeaderMismatch(
        f"the header names the columns {shown(header)}, the source declares {shown(declared)}: "
        f"{reason}{advice}",
        header=list(header[:SHOWN_NAMES]),
        declared=list(declared[:SHOWN_NAMES]),
    )


UTF8 = "utf-8"
_KNOWN = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "ascii"),
        *(f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))),
        *(f"cp{page}" for page in (*range(1250, 1259), 437, 737, 775, 850, 852, 855)),
        *(f"cp{page}" for page in (857, 858, *range(860, 867), 869, 874, 932, 949, 950)),
        *("gb2312", "gbk", "gb18030", "big5", "big5hkscs", "shift_jis", "euc_jp", "euc_kr"),
        *("koi8-r", "koi8-u", "mac-roman", "tis-620"),
    }
)
"""The names of Python's codecs."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""First bytes that tell the encoding; the mark of UTF-32 begins with that of UTF-16."""
_PARTS = re.compile(r"(?:iso)?8859(\d{1,2})")
_PAGE = re.compile(r"(?:windows|ansi|oem|cp|ibm|win)?(\d{3,5})")
_SINGLE_BYTE_PAGES = frozenset(
    name.removeprefix("cp")
    for name in _KNOWN
    if name.startswith("cp") and name not in ("cp932", "cp949", "cp950")
)
_PAGES = {"65001": UTF8, "28591": "iso8859-1", "20127": "ascii", "936": "gbk", "54936": "gb18030"}
"""Code pages of Windows that Python calls otherwise."""


def encoding_of(name: str) -> str | None:
    """Return Python's codec of an encoding; None if the name is not known."""
    plain = re.sub(r"[^a-z0-9]", "", name.strip().lower())
    if part := _PARTS.fullmatch(plain):
        return _codec(f"iso8859-{int(part[1])}")
    if page := _PAGE.fullmatch(plain):
        return _codec(_PAGES.get(page[1], f"cp{page[1]}"))
    return _codec(plain) or _codec(name.strip().lower())


def is_of_single_bytes(codec: str) -> bool:
    """Whether a codec has a byte for each character, so that any bytes are texts of it."""
    page = codec.removeprefix("cp")
    return codec.startswith(("iso8859-", "koi8-", "mac-")) or page in _SINGLE_BYTE_PAGES


def marked_encoding(begin: bytes) -> str | None:
    """Return the codec that a byte order mark tells, unless that is UTF-8."""
    return next((name for mark, name in BYTE_ORDER_MARKS if begin.startswith(mark)), None)


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return found if found in _KNOWN else None


WORKBOOK_TYPES = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xlsm": "application/vnd.ms-excel.sheet.macroenabled.12",
    "xlsb": "application/vnd.ms-excel.sheet.binary.macroenabled.12",
    "xls": "application/vnd.ms-excel",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
}
