"""The scratch folder of a process: locked during its life; after a kill, other workers remove it.

A lock shows which workers are alive even if workers share a folder but cannot see each other's
processes, as in containers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..engines.remote.runtimes import ContainerRules, remove_left_behind
from ..settings import WorkerSettings, container_rules

PREFIX = "odf-worker-"


@contextmanager
def scratch_folder(settings: WorkerSettings) -> Iterator[Path]:
    """Create a folder for this process, after removing the folders of killed workers beside it."""
    base = (settings.scratch or Path(tempfile.gettempdir())).absolute()
    base.mkdir(parents=True, exist_ok=True)
    clear(base, container_rules(settings))
    # It receives the prefix that others look for only after it is locked.
    made = Path(tempfile.mkdtemp(prefix=".", dir=base))
    lock = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scratch = made.rename(base / f"{PREFIX}{os.getpid()}-{made.name[1:]}")
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    finally:
        os.close(lock)


def clear(base: Path, rules: ContainerRules) -> None:
    """Remove containers and folders of workers that are gone."""

    def is_left(folder: Path) -> bool:
        inside = folder.is_relative_to(base) and folder != base
        return inside and _is_gone(base / folder.relative_to(base).parts[0])

    remove_left_behind(rules, is_left)
    for old in base.glob(f"{PREFIX}*"):
        if _is_gone(old):
            shutil.rmtree(old, ignore_errors=True)


def _is_gone(folder: Path) -> bool:
    """Whether no process has locked a scratch folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return True
    except OSError:  # it belongs to another user
        return False
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
    finally:
        os.close(handle)
