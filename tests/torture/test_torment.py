"""Everything is killed at random while chains are pushed and rows are posted; the short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from torment import torment
from world import Shape

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("shape", "seconds"),
    [
        pytest.param(Shape(postgres=True, bucket=True), 20, id="postgres, bucket"),
        pytest.param(Shape(postgres=False, bucket=False), 6, id="sqlite, files"),
    ],
)
def test_nothing_acknowledged_is_lost_when_anything_is_killed_at_any_time(
    tmp_path: Path, shape: Shape, seconds: float
) -> None:
    folder = tmp_path
    for part in (folder, *folder.parents):  # PostgreSQL may run as somebody else
        if part.owner() == tmp_path.owner() and len(part.parts) > 2:
            part.chmod(part.stat().st_mode | 0o755)
    outcome = torment(folder, shape, seconds=seconds, seed=20, pause=1.0)
    print(outcome)
    assert sum(outcome.kills.values()) >= 4
    assert outcome.acknowledged > 4
