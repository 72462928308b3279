"""Processes of a node: their children, their folders, their descriptors.

Messages about processes that a spawner process forks, one for each query.

Folders of running processes: locked during their life, so that others remove those of dead ones.

A lock shows which processes are alive even if they share a folder but cannot see each other, as in
containers. Forks of a process hold its lock, too.

How many files and connections a process may have open: raised as far as the system allows.

Usual systems start programs with 1,024, which a service uses up by that number of clients, and
allow many times more on request. Programs that are started inherit the raised limit.

Folders from which a child process imports our packages: those that this process has them from.

A child that does not read the environment would otherwise find the packages that are installed,
which need not be ours.

Pandas, which is hidden from programs that do not use it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PID = struct.Struct("=q")
"""The process id of a new process, sent with its pidfd before anything else."""
EXIT_STATUS = struct.Struct("=i")
"""The exit status of the process, as `waitpid` returns it."""
ENDING_S = 10.0
"""Limit in seconds of the wait for the exit status of a killed process."""


_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, first: Any = 0, second: Any = 0) -> int:
    """Call `prctl`. Raises `OSError`."""
    answer = int(_LIBRARY.prctl(option, first, second, 0, 0))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends. Raises `OSError`."""
    prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def close_own_memory() -> None:
    """Prevent other processes of this user from reading this process's memory and environment, if
    the kernel supports that. Child processes are readable again."""
    with suppress(OSError, AttributeError):
        prctl(_SET_DUMPABLE, 0)


def end_forked(handle: int, status_pipe: int) -> None:
    """Kill the process of this pidfd, wait until its exit status arrives, and close the pidfd."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    _has_status(status_pipe)
    os.close(handle)


def ending_signal(status_pipe: int) -> int | None:
    """Return the signal that ended the process, or None. `status_pipe` brings its exit status."""
    if not _has_status(status_pipe):
        return None
    said = os.read(status_pipe, EXIT_STATUS.size)
    if len(said) < EXIT_STATUS.size or not os.WIFSIGNALED(EXIT_STATUS.unpack(said)[0]):
        return None
    return os.WTERMSIG(EXIT_STATUS.unpack(said)[0])


def _has_status(status_pipe: int) -> bool:
    """Wait up to `ENDING_S` for the exit status in this pipe; return whether it is readable."""
    return bool(select.select([status_pipe], [], [], ENDING_S)[0])


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


WANTED = 65_536
"""Descriptors that a program asks for; more make some libraries slow that close all of them."""
JAVA_NEEDS = 512
"""Descriptors below which Spark's Java does not start: it opens its classes one by one."""


def raise_limit(needed: int) -> str | None:
    """Raise the limit of this process. Return a warning if it stays below `needed`, else None."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    return (
        f"this process may open {soft} files and connections, its settings can take {needed}: "
        f"raise the limit (ulimit -n {needed}, or LimitNOFILE= of its service)"
    )


def import_places(*packages: str) -> tuple[str, ...]:
    """Return the folders around `odf_protocol`, `odf_storage` and the packages of these names: one
    in an installation, several in a checkout, which have nothing else in them."""
    found = map(find_spec, ("odf_protocol", "odf_storage", *packages))
    begins = (each.origin for each in found if each is not None)
    return tuple(dict.fromkeys(str(Path(str(each)).resolve().parents[1]) for each in begins))


class _Without:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def hide_pandas() -> None:
    """Hide pandas from this process, whose code does not use it: Arrow imports it, if installed,
    with the first array that is made of a list, which takes 60 MB and a third of a second."""
    sys.meta_path.insert(0, _Without())
