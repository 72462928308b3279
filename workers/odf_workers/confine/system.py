"""System calls for which Python has no function."""

from __future__ import annotations

import ctypes
import os
from typing import Any

_LIBRARY = ctypes.CDLL(None, use_errno=True)
SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE = 1, 4
GET_SECCOMP, SET_SECCOMP, SET_NO_NEW_PRIVILEGES = 21, 22, 38
_CAPABILITIES_OF_64_BITS = 0x20080522


def syscall(number: int, *arguments: Any) -> int:
    """Make a system call. Raises `OSError`."""
    return _checked(int(_LIBRARY.syscall(number, *arguments)))


def prctl(option: int, first: Any = 0, second: Any = 0) -> int:
    """Call `prctl`. Raises `OSError`."""
    return _checked(int(_LIBRARY.prctl(option, first, second, 0, 0)))


def drop_capabilities() -> None:
    """Drop the capabilities of a root process; `execve` does not restore them if new privileges are
    disabled. Raises `OSError`."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_OF_64_BITS, 0)
    _checked(int(_LIBRARY.capset(header, (ctypes.c_uint32 * 6)())))


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
