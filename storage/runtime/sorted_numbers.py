"""Sets of numbers as sorted arrays.

`np.unique`, and what it is in (`setdiff1d`, `isin` of large numbers), puts whole numbers into a
hash table, which takes 16 times as long as sorting them where most differ.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

N = TypeVar("N", bound=np.integer[Any])


def distinct(numbers: npt.NDArray[N]) -> npt.NDArray[N]:
    """Each number once, in order."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def among(numbers: npt.NDArray[N], ordered: npt.NDArray[N]) -> npt.NDArray[np.bool_]:
    """Which numbers are in the ordered ones."""
    if not len(ordered):
        return np.zeros(len(numbers), bool)
    at = np.searchsorted(ordered, numbers)
    at[at == len(ordered)] = 0
    found: npt.NDArray[np.bool_] = ordered[at] == numbers
    return found
