"""Links and spilled rows of queries go with their run: removed at its end, or, if it was killed,
at the next start, whatever their age; those of living runs stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odf_node.service.query.query import OwnFolders
from odf_node.service.settings import Settings
from odf_storage.runtime.processes import own_folder, remove_dead

RUN = """
import sys, time
from pathlib import Path
from odf_node.service.query.query import OwnFolders
from odf_node.service.settings import Settings
folders = OwnFolders(Settings(data=Path(sys.argv[1]), query_links=Path(sys.argv[2])))
for made in (folders.make_scratch(), folders.make_links()):
    (made / "rows").write_text("rows")
    print(made, flush=True)
time.sleep(600)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "node", query_links=tmp_path / "links")


class Run:
    """Another run of the service, which has begun a query."""

    def __init__(self, settings: Settings) -> None:
        command = [sys.executable, "-c", RUN, str(settings.data), str(settings.query_links)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.folders = [Path(self.process.stdout.readline().strip()) for _ in range(2)]

    def end(self, how: int) -> None:
        os.kill(self.process.pid, how)
        self.process.communicate(timeout=90)


@pytest.fixture
def run(settings: Settings) -> Iterator[Run]:
    run = Run(settings)
    yield run
    if run.process.poll() is None:
        run.end(signal.SIGKILL)


def test_folders_of_a_killed_run_go_at_the_next_start_and_those_of_a_living_one_stay(
    settings: Settings, run: Run
) -> None:
    other = Run(settings)
    other.end(signal.SIGKILL)
    assert all((folder / "rows").exists() for folder in [*other.folders, *run.folders])
    OwnFolders(settings).remove_dead()
    assert not any(folder.parent.exists() for folder in other.folders)
    assert all((folder / "rows").exists() for folder in run.folders)


def test_folders_of_a_run_that_ends_go_with_it(settings: Settings) -> None:
    folders = OwnFolders(settings)
    made = [folders.make_scratch(), folders.make_links(), folders.make_links()]
    assert len(set(made)) == 3
    folders.close()
    assert not any(folder.exists() for folder in made)
    assert folders.make_links().is_dir()  # a late query has a folder all the same
    folders.close()


def test_a_link_is_no_folder_of_a_dead_run(tmp_path: Path) -> None:
    base, foreign = tmp_path / "base", tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "file").touch()
    with own_folder(base, "odf-x-") as own:
        (base / "odf-x-link").symlink_to(foreign)
        remove_dead(base, "odf-x-")
        assert own.is_dir()
        assert (foreign / "file").exists()
    assert not own.exists()
