"""Landlock, through its system calls: confines files, TCP ports, signals and abstract sockets.

A process in a Landlock domain can neither trace processes outside it nor read their memory or
environment below /proc, even if its user may.

System calls for which Python has no function.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from stat import S_ISDIR
from typing import Any

from .rules import SYSTEM_WRITES, Rules

_LIBRARY = ctypes.CDLL(None, use_errno=True)
GET_SECCOMP, SET_SECCOMP, SET_NO_NEW_PRIVILEGES = 21, 22, 38
_CAPABILITIES_OF_64_BITS = 0x20080522


def syscall(number: int, *arguments: Any) -> int:
    """Make a system call. Raises `OSError`."""
    return _checked(int(_LIBRARY.syscall(number, *arguments)))


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


_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_PATH, _PORT = 1, 2

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICES = 1 << 13, 1 << 14, 1 << 15
_ALL_FILES = (1 << 13) - 1
"""File rights of the first version; later versions added higher bits."""
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICES
"""Rights that apply to files other than folders."""
_BIND, _CONNECT = 1 << 0, 1 << 1
_SCOPES = (1 << 0) | (1 << 1)

_SINCE = {"files": 1, "tcp": 4, "signals": 6}
"""Confined parts, with the first version of Landlock that can confine each."""


def version() -> int:
    """Return the version of this kernel's Landlock; 0 if it has none."""
    try:
        return syscall(_CREATE, None, 0, _VERSION)
    except OSError:
        return 0


def missing(found: int) -> list[str]:
    """Return the parts that a kernel with this version cannot confine."""
    return [what for what, since in _SINCE.items() if found < since]


def restrict(rules: Rules, found: int) -> None:
    """Confine the calling thread and its children, as far as version `found` can.

    Raises:
        OSError: the kernel refuses.
    """
    files = _rights(found)
    ports = (_BIND if rules.binds is not None else 0) | (
        _CONNECT if rules.connects is not None else 0
    )
    attributes = struct.pack("=QQQ", files, ports, _SCOPES)
    size = 8 if found < _SINCE["tcp"] else 16 if found < _SINCE["signals"] else 24
    ruleset = syscall(_CREATE, attributes[:size], size, 0)
    try:
        _allow_paths(ruleset, (*SYSTEM_WRITES, *rules.writes), files)
        _allow_paths(ruleset, rules.reads, files & (_EXECUTE | _READ | _LIST))
        if found >= _SINCE["tcp"]:
            _allow_ports(ruleset, rules.binds or (), _BIND)
            _allow_ports(ruleset, rules.connects or (), _CONNECT)
        syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _rights(found: int) -> int:
    later = ((2, _REFER), (3, _TRUNCATE), (5, _DEVICES))
    return _ALL_FILES | sum(right for since, right in later if found >= since)


def _allow_paths(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # the confined process could not open it either
        try:
            of_kind = rights if S_ISDIR(os.fstat(opened).st_mode) else rights & _OF_FILES
            syscall(_ADD, ruleset, _PATH, struct.pack("=Qi", of_kind, opened), 0)
        finally:
            os.close(opened)


def _allow_ports(ruleset: int, ports: Iterable[int], right: int) -> None:
    for port in ports:
        syscall(_ADD, ruleset, _PORT, struct.pack("=QQ", right, port), 0)
