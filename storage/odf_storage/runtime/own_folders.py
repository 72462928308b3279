"""Folders of running processes: locked during their life, so that others remove those of dead ones.

A lock shows which processes are alive even if they share a folder but cannot see each other, as in
containers. Forks of a process hold its lock, too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def own_folder(base: Path, prefix: str) -> Iterator[Path]:
    """Create a folder of this process in `base`, which only this user reads."""
    base.mkdir(parents=True, exist_ok=True)
    # It receives the prefix that others look for only after it is locked.
    made = Path(tempfile.mkdtemp(prefix=".", dir=base))
    lock = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = made.rename(base / f"{prefix}{os.getpid()}-{made.name[1:]}")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def remove_dead(base: Path, prefix: str) -> None:
    """Remove the folders in `base` whose processes are gone."""
    for old in base.glob(f"{prefix}*"):
        if is_dead(old):
            shutil.rmtree(old, ignore_errors=True)


def is_dead(folder: Path) -> bool:
    """Whether no process has locked the folder."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:  # it belongs to another user, or is none
        return False
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
    finally:
        os.close(handle)
