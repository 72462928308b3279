"""Which column of a declared schema a field of a CSV file is, by the names in its header.

The specification reads columns by position and passes over the header. A file whose columns
stand in another order would then be sealed under the wrong names, so the header is compared:

- the declared names in any order: columns are taken by name;
- no declared name at a place that is not its own: columns are taken by position, and other
  names count as renamings, which the receipt warns of;
- anything else is refused.

Names are equal up to case and surrounding blanks, unless the schema tells columns apart by
those. A source chooses another rule by an attribute (`source_options.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import BadInput
from .source_options import HeaderRule

SHOWN_NAMES = 10
"""So many columns are named by an error or a warning."""


class HeaderMismatch(BadInput):
    """The columns of a file are not those of the schema, and which is which is not clear."""


@dataclass(frozen=True, slots=True)
class Matched:
    """`order[i]` is the field of a record that holds declared column `i`."""

    order: tuple[int, ...]
    renamed: tuple[tuple[str, str], ...] = ()
    """Header and declared name, where they differ."""

    @property
    def in_order(self) -> bool:
        return self.order == tuple(range(len(self.order)))

    def warnings(self) -> tuple[str, ...]:
        """What a publisher should know, though the file is read."""
        if not self.renamed:
            return ()
        pairs = [f"`{found}` as `{wanted}`" for found, wanted in self.renamed[:SHOWN_NAMES]]
        more = ", …" if self.renamed[SHOWN_NAMES:] else ""
        return (f"columns are taken by position: {', '.join(pairs)}{more}",)


def match(
    header: Sequence[str], declared: Sequence[str], rule: HeaderRule = HeaderRule.NAMES
) -> Matched:
    """Which field is which column; there are as many names on both sides.

    Raises:
        HeaderMismatch.
    """
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
    """Whether a record is a header and no row: it holds all the declared names. Of a single column
    nobody can tell."""
    if len(record) != len(declared) or len(declared) < 2:
        return False
    found, wanted = _keys(record, declared)
    return sorted(found) == sorted(wanted)


def _keys(header: Sequence[str], declared: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names as they are compared: without case and blanks, if they differ without those."""
    found, wanted = ([name.strip().casefold() for name in names] for names in (header, declared))
    if len(set(found)) == len(found) and len(set(wanted)) == len(wanted):
        return found, wanted
    return list(header), list(declared)


def _mismatch(header: Sequence[str], declared: Sequence[str], reason: str) -> HeaderMismatch:
    def shown(names: Sequence[str]) -> str:
        return ", ".join(name[:100] for name in names[:SHOWN_NAMES])

    return HeaderMismatch(
        f"the header names the columns {shown(header)}, the source declares {shown(declared)}: "
        f"{reason}. Name all columns as declared, in any order, or none of them",
        header=list(header[:SHOWN_NAMES]),
        declared=list(declared[:SHOWN_NAMES]),
    )
