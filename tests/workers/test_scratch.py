"""The scratch folder of a worker is its own while it lives, and cleared by others after a kill."""

from __future__ import annotations

from pathlib import Path

from odf_workers.program.wiring import clear, scratch_folder
from odf_workers.settings import WorkerSettings, container_rules


def test_two_workers_have_folders_of_their_own_that_go_with_them(tmp_path: Path) -> None:
    settings = WorkerSettings(scratch=tmp_path / "made" / "here")
    with scratch_folder(settings) as one, scratch_folder(settings) as other:
        assert one != other
        assert one.is_dir()
        assert other.is_dir()
    assert list((tmp_path / "made" / "here").iterdir()) == []


def test_folders_of_killed_workers_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    settings = WorkerSettings(scratch=tmp_path)
    killed, foreign = tmp_path / "odf-worker-1-killed", tmp_path / "foreign"
    for folder in (killed, foreign):
        folder.mkdir()
        (folder / "file").touch()
    with scratch_folder(settings) as living:
        clear(tmp_path, container_rules(settings))
        assert sorted(tmp_path.iterdir()) == sorted([living, foreign])
