"""The scratch folder of a worker: its own while it lives; after a kill, others remove it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odf_storage.runtime.own_folders import is_dead, own_folder, remove_dead

from ..engines.remote.runtimes import ContainerRules, remove_left_behind
from ..settings import WorkerSettings, container_rules

PREFIX = "odf-worker-"


@contextmanager
def scratch_folder(settings: WorkerSettings, prefix: str = PREFIX) -> Iterator[Path]:
    """Create a folder for this process, after removing the folders of killed ones beside it."""
    base = (settings.scratch or Path(tempfile.gettempdir())).absolute()
    clear(base, container_rules(settings), prefix)
    with own_folder(base, prefix) as scratch:
        yield scratch


def clear(base: Path, rules: ContainerRules, prefix: str = PREFIX) -> None:
    """Remove containers and folders of processes that are gone."""

    def is_left(folder: Path) -> bool:
        inside = folder.is_relative_to(base) and folder != base
        return inside and is_dead(base / folder.relative_to(base).parts[0])

    remove_left_behind(rules, is_left)
    remove_dead(base, prefix)
