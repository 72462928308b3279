"""Sets of numbers as sorted arrays.

`np.unique` and functions based on it (`setdiff1d`, `isin` of large numbers) put integers into a
hash table. If most are distinct, that takes 16 times as long as sorting them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

N = TypeVar("N", bound=np.integer[Any])


def distinct(numbers: npt.NDArray[N]) -> npt.NDArray[N]:
    """Return the distinct numbers, in order."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def among(numbers: npt.NDArray[N], ordered: npt.NDArray[N]) -> npt.NDArray[np.bool_]:
    """Return for each number whether the sorted array `ordered` contains it."""
    if not len(ordered):
        return np.zeros(len(numbers), bool)
    at = np.searchsorted(ordered, numbers)
    at[at == len(ordered)] = 0
    found: npt.NDArray[np.bool_] = ordered[at] == numbers
    return found
