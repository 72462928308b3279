"""A node is lost and restored while people of a provider use it; the short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from drill import drill

pytestmark = pytest.mark.e2e


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the provider uses what it gives up
def test_after_a_fire_nothing_of_before_the_backup_is_lost_and_the_rest_is_told(
    open_folder: Path,
) -> None:
    done = drill(open_folder, people=4, seconds=4, seed=43, pause=4.0, after_posts=2)
    print(done)
    assert done.kills
    assert done.posted >= 4 * 4 - 2
    assert done.questions >= 1
    assert done.over_quota >= 1
    assert (done.backups >= 2, done.restores, done.told_lost >= 3) == (True, 2, True)
