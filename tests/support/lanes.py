"""Streams that go side by side, for a test: code is made once a run, whatever the processor has."""

from __future__ import annotations

from functools import lru_cache

import pytest

from odf_storage.lanes import kernel as kernels
from odf_storage.lanes import side_by_side

LANES = 4
COLLECTED_BYTES = 300
"""No multiple of a block: what is collected and what comes may be too little for one more."""

kernel = lru_cache(kernels.kernel)


def lay_open(monkeypatch: pytest.MonkeyPatch, lanes: int = LANES) -> None:
    """Have streams mixed by made code almost from their first block on."""
    prepared = side_by_side._Kernels()
    prepared.is_asked, prepared.single, prepared.wide = True, kernel(1), kernel(lanes)
    monkeypatch.setattr(side_by_side, "_kernels", prepared)
    monkeypatch.setattr(side_by_side, "COLLECTED_BYTES", COLLECTED_BYTES)
