"""Records of a sample as columns: names, the values as the file has them, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from odf_protocol.errors import BadInput
from odf_protocol.metadata.reading import ReadStep

MAX_COLUMNS = 2_000
MAX_CELLS = 4_000_000
"""Limit of rows times columns that are examined."""


class NoRecords(BadInput):
    """A sample without a record that can be examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Columns by name; values are texts (CSV) or JSON values, and None is a missing value. There
    are no columns of files whose reader alone knows them."""

    names: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...]
    content: bytes | Path
    """These records, as the file has them, for the reader."""
    is_whole: bool
    """Whether these are all records of the file."""
    step: ReadStep
    """How they are read, without a schema."""
    types: pa.Schema = pa.schema([])  # noqa: RUF009 - it cannot change
    """The columns of a file that says its types."""
    groups: tuple[int, ...] | None = None
    """Row groups of a Parquet file that are looked at; None: all."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the source (`odf_protocol/source_options.py`) that are needed to read them."""
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.columns[0]) if self.columns else 0


def distinct_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns that differ, also without case: a blank one is called by its
    position, a repeated one gets a number."""
    taken, seen = {name.strip().casefold() for name in given}, set[str]()
    following: dict[str, int] = {}
    names: list[str] = []
    for at, cell in enumerate(given, 1):
        shown = "".join(one if one.isprintable() else " " for one in cell).strip()
        plain = shown or f"column_{at}"
        name = plain
        if name.casefold() in seen or (not shown and name.casefold() in taken):
            number = following.get(plain.casefold(), 2)
            while (folded := f"{plain}_{number}".casefold()) in taken or folded in seen:
                number += 1
            name = f"{plain}_{number}"
            following[plain.casefold()] = number + 1
        seen.add(name.casefold())
        names.append(name)
    return tuple(names)
