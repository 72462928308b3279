"""States that go side by side, for a test: code is made once a run, whatever the processor has."""

from __future__ import annotations

from functools import lru_cache

import pytest

from protocol import kernel as kernels
from protocol import sha3

LANES = 4
HELD_BYTES = 300
"""No multiple of a block: what is held and what comes may be too little for one more."""

kernel = lru_cache(kernels.kernel)


def lay_open(monkeypatch: pytest.MonkeyPatch, lanes: int = LANES) -> None:
    """Have states mixed by made code almost from their first block on."""
    made = sha3._Made()
    made.is_asked, made.alone, made.together = True, kernel(1), kernel(lanes)
    monkeypatch.setattr(sha3, "_made", made)
    monkeypatch.setattr(sha3, "HELD_BYTES", HELD_BYTES)
