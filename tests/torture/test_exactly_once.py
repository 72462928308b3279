"""Posts under Idempotency-Keys while service and worker are killed; the short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from exactly_once import exactly_once
from world import Shape

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_every_receipt_is_true_and_no_row_is_lost_or_doubled(tmp_path: Path) -> None:
    done = exactly_once(tmp_path, Shape(postgres=False, bucket=False), rows=2400, seed=7)
    assert done["rows"] == 2400
    assert done["kills"] >= 2
