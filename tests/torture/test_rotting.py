"""Bits flip under a running pipeline: nothing wrong is committed or shown, and all is named; the
short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from rotting import rotting

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("rot", [True, False], ids=["rot", "writes"])
def test_nothing_wrong_comes_of_flipped_bits_and_all_are_named(tmp_path: Path, rot: bool) -> None:
    outcome = rotting(tmp_path, flips=20, seed=11, rot=rot, settle_every=10)
    print(outcome)
    assert outcome.flips.total() >= 20
    assert outcome.named.total() + outcome.gone.total() == outcome.flips.total()
    assert outcome.named.total() >= 15
