"""Plan the partitions of a published dataset: unchanged slices, and slices without dead rows.

Pure: existing partitions are kept, and new ones get labels that no reader uses yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odf_protocol.errors import LimitExceeded
from odf_protocol.kartothek.keys import data_key

from .chain_slices import ChainSlice

EMPTY = "empty"
"""Label of the partition of a dataset without rows; without it, readers would list the store."""


MAX_PARTITIONS = 100_000
"""Limit of partitions of one published dataset; its state file names each of them."""
Split = Callable[[ChainSlice, "np.ndarray[Any, Any]"], Mapping[str, "np.ndarray[Any, Any]"]]
"""Splits offsets of a slice by the folder of the values of their partition columns."""


class TooManyPartitions(LimitExceeded):
    """The partition columns have too many values."""

    def __init__(self) -> None:
        super().__init__(
            f"the dataset would have more than {MAX_PARTITIONS} partitions; partition on a column "
            "with fewer values",
            limit=MAX_PARTITIONS,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition. `source` None: the partition of a dataset without rows."""

    label: str
    rows: int
    source: ChainSlice | None
    offsets: np.ndarray[Any, Any]
    """Sorted offsets. If the partition has a folder, they are of all folders of its slice."""
    is_there: bool
    is_whole: bool
    """Whether its file is the slice itself."""
    folder: str = ""
    """`col=val/…/`, from the values of partition columns."""

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
    split: Split | None = None,
) -> list[Part]:
    """Return the partitions of these slices with the `live` offsets (None: all).

    `there` has existing partitions of the same slices, with their numbers of rows: rows of a slice
    can die but not come back, so equal numbers mean the same rows. `mark` makes labels unique if
    the plain one is taken. A slice is split only if it is new or some of its rows died.

    Raises:
        TooManyPartitions: more than `MAX_PARTITIONS`.
    """
    known: dict[int, dict[str, str]] = defaultdict(dict)
    for former in there:
        if former.partition("-")[0] != EMPTY:
            folder, block = _pieces(former)
            known[block][folder] = former
    parts: list[Part] = []
    for each in slices:
        offsets = _offsets(each, live)
        its = known[each.sequence]
        for folder, rows in _folders(each, offsets, its, there, split).items():
            is_all = len(offsets) == each.rows
            is_whole = split is None and each.is_current and is_all
            label = its.get(folder)
            is_there = label is not None and there[label] == rows
            if label is None or not is_there:
                plain = f"{folder}b{each.sequence:08}" + (
                    "" if is_whole or (split is not None and is_all) else f"-r{publishing:08}"
                )
                label = _free(plain, uuid, taken, mark)
            parts.append(
                Part(
                    label=label,
                    rows=rows,
                    source=each,
                    offsets=offsets,
                    is_there=is_there,
                    is_whole=is_whole,
                    folder=folder,
                )
            )
        if len(parts) > MAX_PARTITIONS:
            raise TooManyPartitions
    if parts or split is not None:
        return parts
    return [_empty(there, uuid, taken, mark)]


def _folders(
    each: ChainSlice,
    offsets: np.ndarray[Any, Any],
    its: Mapping[str, str],
    there: Mapping[str, int],
    split: Split | None,
) -> Mapping[str, int]:
    """Return the numbers of rows by folder, without empty folders."""
    if split is None:
        return {"": len(offsets)} if len(offsets) else {}
    if sum(there[label] for label in its.values()) == len(offsets):
        return {folder: there[label] for folder, label in its.items()}
    return {folder: len(some) for folder, some in split(each, offsets).items()}


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


def _pieces(label: str) -> tuple[str, int]:
    """Return folder and block number of a label that `planned_parts` made."""
    folder, slash, name = label.rpartition("/")
    return folder + slash, int(name[1:9])


def _free(label: str, uuid: str, taken: Collection[str], mark: str) -> str:
    return label if data_key(uuid, label) not in taken else f"{label}-{mark}"
