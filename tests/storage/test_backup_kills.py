"""Backups and restores that are killed at any step leave one of two complete states."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.storage.test_backup import (
    is_clean,
    made,
    node_at,
    peopled,
    place_of,
    restored,
    state_of,
)
from upkeep_parts import grown, longer

from odf_protocol.errors import Conflict
from odf_storage.datasets.backup import check as checking
from odf_storage.datasets.backup.manifest import chosen, listed, load

KILLS = int(os.environ.get("ODF_BACKUP_KILLS", "24"))
"""How often backups are killed, and a third as often restores; 1000 takes six minutes of a core."""
WHOLLY_EACH = 20
"""After so many kills all backups are read wholly; after each other, files of the newest one are
looked for."""
KEPT, MOST_BLOCKS, LONG_RUN = 3, 40, 200
DIED = 9
pytestmark = pytest.mark.timeout(900 + 10 * KILLS)  # on a busy machine


def killed(work: Callable[[], object], after: int) -> bool:
    """Run in a process that dies at once at its n-th step; whether it came to an end. A step is
    before or after a file appears, a row is written, or a transaction commits."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _die_at_step(after)
            work()
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, DIED), "it failed by itself"
    return status == 0


def _die_at_step(after: int) -> None:
    left = [after]

    def step(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            os._exit(DIED)

    def stepping(name: str) -> None:
        usual = getattr(os, name)

        def around(*given: Any, **more: Any) -> Any:
            step()
            made_of = usual(*given, **more)
            step()
            return made_of

        setattr(os, name, around)

    for name in ("replace", "link", "rename"):
        stepping(name)
    sa.event.listen(sa.Engine, "before_cursor_execute", step)
    sa.event.listen(sa.Engine, "commit", step)


def test_a_backup_that_is_killed_anywhere_is_not_there_and_the_next_one_is_whole(
    tmp_path: Path,
) -> None:
    stores = node_at(tmp_path / "data")
    datasets = [grown(stores, f"kamu/d{number}") for number in range(3)]
    stores.close()
    chance, place = random.Random(43), place_of(tmp_path / "backups")
    ended = died_before = died_after = 0

    def work() -> None:
        child = node_at(tmp_path / "data")
        made(child, place_of(tmp_path / "backups"), keep=KEPT)

    for turn in range(KILLS):
        before = listed(place)
        has_ended = killed(work, chance.randint(1, 300))
        found = listed(place)
        appeared = [one for one in found if one not in before]
        stayed = [one for one in found if one in before]
        assert stayed == before[len(before) - len(stayed) :], "the oldest are removed first"
        assert len(appeared) <= 1, "a run makes one backup"
        for one in appeared:
            heads = {str(entry.id): str(blocks[-1].hash) for entry, blocks in datasets}
            assert {held.id: held.head for held in load(place, one).held} == heads
        assert appeared or not has_ended
        ended += has_ended
        died_before += not has_ended and not appeared
        died_after += not has_ended and bool(appeared)
        is_whole = not (turn + 1) % WHOLLY_EACH
        for one in found if is_whole else found[-1:]:
            report = checking.check(place, chosen(place, one.number), reads=is_whole)
            assert report.ok, report.damages
        stores = node_at(tmp_path / "data")
        which = turn % 3
        if len(datasets[which][1]) > MOST_BLOCKS:
            stores.forget_dataset(datasets[which][0].id)
            datasets[which] = grown(stores, f"kamu/d{which}", value=str(turn))
        else:
            longer(stores, *datasets[which])
        stores.close()
    assert ended, "no run came to its end: the steps at which it dies are too early"
    assert died_before, "no run died before its backup was there"
    assert died_after or KILLS < LONG_RUN, "no run died between its backup and its end"
    stores = node_at(tmp_path / "data")
    made(stores, place, keep=1)
    restored(place, tmp_path / "other")
    again = node_at(tmp_path / "other")
    assert state_of(again) == state_of(stores)
    assert is_clean(again)
    again.close()
    stores.close()


def test_a_restore_that_is_killed_anywhere_is_refused_or_whole_and_goes_on(tmp_path: Path) -> None:
    stores = node_at(tmp_path / "data")
    peopled(stores)
    grown(stores, "kamu/rivers")
    place = place_of(tmp_path / "backups")
    made(stores, place)
    expected = state_of(stores)
    stores.close()
    chance, kills, turn = random.Random(44), 0, 0
    while kills < KILLS // 3:
        folder, turn = tmp_path / f"n{turn}", turn + 1
        for after in (chance.randint(1, 200), chance.randint(1, 200), 0):
            ended = killed(lambda folder=folder: restored(place, folder), after)
            kills += not ended
            try:
                again = node_at(folder)
            except Conflict:  # RestoreUnfinished
                assert not ended
                continue
            if next(iter(again.registry.page()), None) is None:
                assert not ended
                again.close()
                continue
            assert state_of(again) == expected
            assert is_clean(again)
            again.close()
            break
        else:
            raise AssertionError("the restore did not go on")
        shutil.rmtree(folder)
