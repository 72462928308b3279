"""Sets of numbers as sorted arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from odf_storage.runtime.sorted_numbers import among, distinct

NUMBERS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20)).map(
    lambda values: np.array(values, np.uint64)
)


@given(NUMBERS)
def test_each_number_is_there_once_and_in_order(numbers):
    assert distinct(numbers).tolist() == sorted(set(numbers.tolist()))


@given(NUMBERS, NUMBERS)
def test_a_number_is_found_if_and_only_if_it_is_among_the_others(numbers, others):
    known = set(others.tolist())
    found = among(numbers, distinct(others))
    assert found.tolist() == [number in known for number in numbers.tolist()]
