"""Which partitions a published dataset has: slices as they are, slices without dead rows.

Pure planning: what is there already is kept, everything new gets a label nobody reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odf_node.protocol.kartothek.keys import data_key

from .chain_slices import ChainSlice

EMPTY = "empty"
"""Label of the partition of a dataset without rows: with none, readers would have to list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition. `source` None: the empty one."""

    label: str
    rows: int
    source: ChainSlice | None
    offsets: np.ndarray[Any, Any]
    """Of its rows, sorted."""
    is_there: bool
    is_whole: bool
    """Its file is the slice itself."""

    @property
    def is_all(self) -> bool:
        """Whether it has all rows of its slice."""
        return self.source is not None and self.rows == self.source.rows


def planned_parts(
    slices: Sequence[ChainSlice],
    live: np.ndarray[Any, Any] | None,
    there: Mapping[str, int],
    *,
    uuid: str,
    publishing: int,
    taken: Collection[str],
    mark: str,
) -> list[Part]:
    """Partitions of these slices, of which the `live` offsets stand (None: all).

    `there` are partitions, with their numbers of rows, that were made of the same slices: rows
    of a slice only ever die, so the same number of rows is the same rows. `mark` makes labels
    unique where the plain one is taken.
    """
    known = {_block(label): label for label in there if label != EMPTY}
    parts = []
    for each in slices:
        offsets = _offsets(each, live)
        if len(offsets) == 0:
            continue
        is_whole = each.is_current and len(offsets) == each.rows
        label = known.get(each.sequence)
        is_there = label is not None and there[label] == len(offsets)
        if label is None or not is_there:
            plain = f"b{each.sequence:08}" + ("" if is_whole else f"-r{publishing:08}")
            label = _free(plain, uuid, taken, mark)
        parts.append(
            Part(
                label=label,
                rows=len(offsets),
                source=each,
                offsets=offsets,
                is_there=is_there,
                is_whole=is_whole,
            )
        )
    return parts or [_empty(there, uuid, taken, mark)]


def _empty(there: Mapping[str, int], uuid: str, taken: Collection[str], mark: str) -> Part:
    is_there = EMPTY in there
    return Part(
        label=EMPTY if is_there else _free(EMPTY, uuid, taken, mark),
        rows=0,
        source=None,
        offsets=np.empty(0, np.int64),
        is_there=is_there,
        is_whole=False,
    )


def _offsets(each: ChainSlice, live: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    interval = each.data.offset_interval
    if live is None:
        return np.arange(interval.start, interval.end + 1, dtype=np.int64)
    first = np.searchsorted(live, interval.start, side="left")
    last = np.searchsorted(live, interval.end, side="right")
    return live[first:last]


def _block(label: str) -> int:
    """The number of the block in a label of ours."""
    return int(label[1:9])


def _free(label: str, uuid: str, taken: Collection[str], mark: str) -> str:
    return label if data_key(uuid, label) not in taken else f"{label}-{mark}"
