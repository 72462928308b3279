"""Rows by their key: hashes, ranges of hashes, and which row of a key is the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odf_node.storage.datasets.merge_state.comparable import numbered
from odf_node.storage.datasets.merge_state.key_hash import Hashes, key_hashes

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
ALL_HASHES = 1 << 64


def hashes_of(rows: pa.Table, key: Sequence[str]) -> Hashes:
    """The hash of each row's key. Raises `NotHashable`."""
    return key_hashes([rows.column(name).combine_chunks() for name in key])


def key_ranges(count: int) -> list[tuple[int, int]]:
    """All hashes in ranges of one width: the first of each, and the first after it."""
    bounds = [ALL_HASHES * at // count for at in range(count + 1)]
    return list(pairwise(bounds))


def key_range(hashes: Hashes, count: int) -> Rows:
    """In which of `key_ranges` each hash lies."""
    starts = np.array([low for low, _ in key_ranges(count)][1:], np.uint64)
    return np.searchsorted(starts, hashes, "right").astype(np.int64)


def last_per_key(hashes: Hashes, keys: Callable[[Rows], pa.Table]) -> Mask:
    """Which rows are the last of their key, of rows that come oldest first.

    `keys` gives the key columns of some rows; it is asked for those only that share their hash.
    """
    last = np.ones(len(hashes), bool)
    some = sharing(hashes)
    if len(some):
        numbers = numbered(keys(some).columns)
        newest = np.zeros(1 + numbers.max(), np.int64)
        newest[numbers] = np.arange(len(numbers))  # of several rows of a key, the last one stays
        last[some] = False
        last[some[newest]] = True
    return last


def sharing(hashes: Hashes) -> Rows:
    """Rows whose hash is that of another row."""
    order = np.argsort(hashes, kind="stable")  # fast where they come in sorted runs
    repeats = np.diff(hashes[order]) == 0
    shares = np.zeros(len(hashes), bool)
    shares[order[1:][repeats]] = True
    shares[order[:-1][repeats]] = True
    return np.flatnonzero(shares)
