"""Five datasets in a diamond while worker, service and database are killed; the short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from diamond import play
from diamond_shapes import ON_DATAFUSION

pytestmark = pytest.mark.e2e


def test_no_row_of_a_diamond_is_lost_doubled_or_out_of_order(open_folder: Path) -> None:
    outcome = play(
        open_folder,
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
