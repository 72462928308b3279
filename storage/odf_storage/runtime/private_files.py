"""Keeps files of a node private to the account that runs it.

New files are created private; files that an earlier version left open are closed at the start. The
data folder keeps others out of everything below it, so only its direct entries are checked.
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
    """Create private files from now on, and make entries of the data folder private. If an entry
    belongs to another account, leave it as it is and log a warning."""
    os.umask(OTHERS)
    if not data.is_dir():
        return
    _close(data)
    for path in data.iterdir():
        if not path.is_symlink():
            _close(path)


def make_private(folder: Path) -> None:
    """Create the folder if it is absent; a new folder is private."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def touch_private(path: Path) -> None:
    """Create an empty private file if absent, before a library creates one that others can read."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def _close(path: Path) -> None:
    """Remove the access rights of other accounts."""
    try:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)
    except FileNotFoundError:  # removed meanwhile
        return
    except OSError as refused:
        _log.warning("other accounts of this machine may read %s: %s", path, refused.strerror)
