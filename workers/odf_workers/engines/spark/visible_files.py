"""Make files visible to a confined Spark, by links in its scratch folder to files of the store.

So Spark sees the slices that its jobs read, and no others. If the store is on another file system
than the scratch folder, Spark may read the folder of the objects instead.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

LINKS = "shown"
_sight: tuple[Path, tuple[Path, ...]] | None = None
"""The scratch folder of this process's Spark, and all folders that it sees. None means that it sees
everything."""


def sees(scratch: Path, folders: Sequence[Path]) -> None:
    """Record that Spark sees only these folders from now on."""
    global _sight
    _sight = (scratch, tuple(folder.absolute() for folder in (scratch, *folders)))


def sees_everything() -> None:
    global _sight
    _sight = None


def shown(paths: Sequence[Path]) -> list[Path]:
    """Return paths of the same files at which Spark sees them."""
    return [_shown(path) for path in paths]


def clear() -> None:
    """Remove the links. The jobs that read them must have ended."""
    if _sight is not None:
        shutil.rmtree(_sight[0] / LINKS, ignore_errors=True)


def can_link(store: Path, scratch: Path) -> bool:
    """Return whether files of the store can have hard links in the scratch folder."""
    there = next(each for each in (store.absolute(), *store.absolute().parents) if each.exists())
    return there.stat().st_dev == scratch.stat().st_dev


def _shown(path: Path) -> Path:
    if _sight is None or any(path.absolute().is_relative_to(each) for each in _sight[1]):
        return path
    folder = _sight[0] / LINKS / secrets.token_hex(8)
    folder.mkdir(parents=True)
    try:
        os.link(path, folder / path.name)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, folder / path.name)
    return folder / path.name
