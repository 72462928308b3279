"""Rows by their key: hashes, ranges of hashes, and the last row of each key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odf_storage.datasets.merge_state.comparable import numbered
from odf_storage.datasets.merge_state.key_hash import Hashes, key_hashes

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
ALL_HASHES = 1 << 64


def hashes_of(rows: pa.Table, key: Sequence[str]) -> Hashes:
    """Return the hash of each row's key. Raises `NotHashable`."""
    return key_hashes([rows.column(name).combine_chunks() for name in key])


def key_ranges(count: int) -> list[tuple[int, int]]:
    """Split all hashes into ranges of equal width; return the first hash of each, and the first
    after it."""
    bounds = [ALL_HASHES * at // count for at in range(count + 1)]
    return list(pairwise(bounds))


def key_range(hashes: Hashes, count: int) -> Rows:
    """Return the index of each hash's range in `key_ranges`."""
    starts = np.array([low for low, _ in key_ranges(count)][1:], np.uint64)
    return np.searchsorted(starts, hashes, "right").astype(np.int64)


def last_per_key(hashes: Hashes, keys: Callable[[Rows], pa.Table]) -> Mask:
    """Return which rows are the last of their key, given the oldest rows first.

    `keys` returns the key columns of some rows; it is called only for rows that share their hash.
    """
    last = np.ones(len(hashes), bool)
    some = sharing(hashes)
    if len(some):
        numbers = numbered(keys(some).columns)
        newest = np.zeros(1 + numbers.max(), np.int64)
        newest[numbers] = np.arange(len(numbers))  # the last of several rows of a key stays
        last[some] = False
        last[some[newest]] = True
    return last


def sharing(hashes: Hashes) -> Rows:
    """Return the rows whose hash another row has, too."""
    order = np.argsort(hashes, kind="stable")  # fast for sorted runs
    repeats = np.diff(hashes[order]) == 0
    shares = np.zeros(len(hashes), bool)
    shares[order[1:][repeats]] = True
    shares[order[:-1][repeats]] = True
    return np.flatnonzero(shares)
