"""Files of a node are for the account it runs as: nobody else on the machine reads them.

What is new is made so; what an earlier version left open is closed at the start. The folder
keeps others out of everything below it, so only what lies in it directly is looked at.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077
_log = logging.getLogger("odf.node")


def keep_private(data: Path) -> None:
    """From now on this process makes files for its own account only; those of the data folder
    become so. What belongs to another account stays as it is, and is told."""
    os.umask(OTHERS)
    if not data.is_dir():
        return
    _close(data)
    for path in data.iterdir():
        if not path.is_symlink():
            _close(path)


def make_private(folder: Path) -> None:
    """A folder, which is private if it is new."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def touch_private(path: Path) -> None:
    """An empty file if there is none, before a library makes one that others may read."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def _close(path: Path) -> None:
    """Take the rights of others away."""
    try:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)
    except FileNotFoundError:  # gone meanwhile
        return
    except OSError as refused:
        _log.warning("other accounts of this machine may read %s: %s", path, refused.strerror)
