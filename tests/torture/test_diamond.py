"""Five datasets in a diamond while worker, service and database are killed; the short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from diamond import play
from diamond_shapes import ON_DATAFUSION

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_no_row_of_a_diamond_is_lost_doubled_or_out_of_order(tmp_path: Path) -> None:
    for part in (tmp_path, *tmp_path.parents):  # PostgreSQL may run as somebody else
        if part.owner() == tmp_path.owner() and len(part.parts) > 2:
            part.chmod(part.stat().st_mode | 0o755)
    outcome = play(
        tmp_path,
        ON_DATAFUSION,
        iterations=12,
        seed=5,
        most=3,
        replay_every=3,
        collector=False,
    )
    print(outcome)
    assert sum(outcome.kills.values()) >= 6
    assert outcome.judged.rows["tens"] == outcome.judged.rows["numbers"] > 0
