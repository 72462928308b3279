"""Matches the fields of a CSV file to the columns of a declared schema, by the file's header.

The specification reads columns by position and ignores the header. The rows of a file with
another column order would then be stored under the wrong names, so the header is compared:

- It has all declared names, in any order: columns are matched by name.
- No declared name is at the position of another column: columns are matched by position, and
  other names count as renamings, which the receipt lists as warnings.
- Anything else is refused.

Names are compared without case and surrounding blanks, unless names in the schema differ only
in those. A source can choose another rule by an attribute (`source_options.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import BadInput
from .source_options import HeaderRule

SHOWN_NAMES = 10
"""Limit of columns that an error or a warning names."""


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
    if len(header) != len(declared):
        raise _of_other_columns(header, declared)
    own = tuple(range(len(declared)))
    if rule is HeaderRule.POSITION:
        return Matched(own)
    if rule is HeaderRule.STRICT:
        if list(header) != list(declared):
            raise _mismatch(header, declared, "they have to be the declared ones in their order")
        return Matched(own)
    found, wanted = _keys(header, declared)
    if sorted(found) == sorted(wanted) and len(set(wanted)) == len(wanted):
        positions = {name: at for at, name in enumerate(found)}
        return Matched(tuple(positions[name] for name in wanted))
    for at, name in enumerate(found):
        if name in wanted and wanted[at] != name:
            raise _mismatch(
                header,
                declared,
                f"`{header[at]}` is declared as another column than number {at + 1}",
            )
    pairs = zip(found, wanted, header, declared, strict=True)
    return Matched(own, tuple((theirs, ours) for f, w, theirs, ours in pairs if f != w))


def names_columns(record: Sequence[str], declared: Sequence[str]) -> bool:
    """Return whether a record is a header and not a row, because it has all declared names. False
    for a single column, which does not allow a decision."""
    if len(record) != len(declared) or len(declared) < 2:
        return False
    found, wanted = _keys(record, declared)
    return sorted(found) == sorted(wanted)


def key_of_name(name: str) -> str:
    """Return a name as it is compared: without case and blanks."""
    return name.strip().casefold()


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


def _named(one: str, several: str, names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name[:100]}`" for name in names[:SHOWN_NAMES])
    more = ", …" if names[SHOWN_NAMES:] else ""
    return f"{one if len(names) == 1 else several} {shown}{more}"


def _mismatch(header: Sequence[str], declared: Sequence[str], reason: str) -> HeaderMismatch:
    def shown(names: Sequence[str]) -> str:
        return ", ".join(name[:100] for name in names[:SHOWN_NAMES])

    return HeaderMismatch(
        f"the header names the columns {shown(header)}, the source declares {shown(declared)}: "
        f"{reason}. Name all columns as declared, in any order, or none of them",
        header=list(header[:SHOWN_NAMES]),
        declared=list(declared[:SHOWN_NAMES]),
    )
