"""Everything is killed at random while chains are pushed and rows are posted; the short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from torment import torment
from world import Shape

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("shape", "kills"),
    [
        pytest.param(Shape(postgres=True, bucket=True), 16, id="postgres, bucket"),
        pytest.param(Shape(postgres=False, bucket=False), 8, id="sqlite, files"),
    ],
)
def test_nothing_acknowledged_is_lost_when_anything_is_killed_at_any_time(
    open_folder: Path, shape: Shape, kills: int
) -> None:
    outcome = torment(open_folder, shape, seconds=120, kills=kills, seed=20, pause=0.8)
    print(outcome)
    assert sum(outcome.kills.values()) >= kills // 2
    assert outcome.acknowledged >= 4
