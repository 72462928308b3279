"""A filter of system calls: only the allowed sockets, no programs, no ways around Landlock.

Landlock covers only TCP, so this filter refuses datagrams and local sockets. It checks numbers and
plain arguments of calls; calls that it does not name stay allowed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping

from odf_storage.runtime.processes import prctl

from .landlock import GET_SECCOMP, SET_SECCOMP
from .rules import Rules

_FILTER_MODE = 2
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _AND, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_THREAD = 0x00010000
_INET, _INET6 = 2, 10
_STREAM, _KIND_BITS = 1, 0xF

_MACHINES: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41,
            "socketpair": 53,
            "clone": 56,
            "fork": 57,
            "vfork": 58,
            "execve": 59,
            "ptrace": 101,
            "pivot_root": 155,
            "mount": 165,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "perf_event_open": 298,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "bpf": 321,
            "execveat": 322,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "clone3": 435,
            "pidfd_getfd": 438,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "mount": 40,
            "pivot_root": 41,
            "unshare": 97,
            "ptrace": 117,
            "socket": 198,
            "socketpair": 199,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "clone": 220,
            "execve": 221,
            "perf_event_open": 241,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "bpf": 280,
            "execveat": 281,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "clone3": 435,
            "pidfd_getfd": 438,
        },
    ),
}
"""For each machine, the identifier of its calls, and the numbers of the calls that the filter
checks."""
_STARTING = ("fork", "vfork", "execve", "execveat")
_JUDGED = {*_STARTING, "socket", "socketpair", "clone", "clone3"}

Step = tuple[int, int, int, int]
"""Code, steps to skip if the condition holds, steps to skip otherwise, and value."""


def is_possible() -> bool:
    """Whether the kernel filters calls, and the call numbers of this machine are known here."""
    try:
        prctl(GET_SECCOMP)
    except OSError:
        return False
    return os.uname().machine in _MACHINES


def restrict(rules: Rules) -> None:
    """Filter the calls of this thread and its children. Raises `OSError`."""
    steps = b"".join(struct.pack("=HBBI", *step) for step in program(rules, os.uname().machine))
    held = ctypes.create_string_buffer(steps, len(steps))
    header = struct.pack("@HP", len(steps) // 8, ctypes.addressof(held))
    prctl(SET_SECCOMP, _FILTER_MODE, header)


def program(rules: Rules, machine: str) -> list[Step]:
    """Return the steps of the filter. Raises `KeyError` for an unknown machine."""
    announced, numbers = _MACHINES[machine]
    steps: list[Step] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, announced),
        (_ANSWER, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *((_AT_LEAST, 0, 1, _X32), (_ANSWER, 0, 0, _REFUSE | errno.ENOSYS)),
    ]
    for name, number in numbers.items():
        answer = list(_answer(name, rules))
        if answer:
            steps += [(_EQUAL, 0, len(answer), number), *answer]
    return [*steps, (_ANSWER, 0, 0, _ALLOW)]


def _answer(name: str, rules: Rules) -> Iterator[Step]:
    """Return the steps for a call; none if it is allowed."""
    refused = (_ANSWER, 0, 0, _REFUSE | errno.EPERM)
    if name not in _JUDGED:
        yield refused
    elif name == "socketpair":
        if rules.sockets == "none":
            yield refused
    elif name == "socket":
        yield from _sockets(rules, refused)
    elif rules.starts:
        return
    elif name in _STARTING:
        yield refused
    elif name == "clone3":  # its flags are in memory, which a filter cannot read; callers fall back
        yield (_ANSWER, 0, 0, _REFUSE | errno.ENOSYS)
    else:  # clone, which also starts threads
        yield (_LOAD, 0, 0, _ARGUMENTS)
        yield (_HAS_BITS, 1, 0, _THREAD)
        yield refused
        yield (_ANSWER, 0, 0, _ALLOW)


def _sockets(rules: Rules, refused: Step) -> Iterator[Step]:
    if rules.sockets == "none":
        yield refused
    elif rules.sockets == "stream":
        yield (_LOAD, 0, 0, _ARGUMENTS)
        yield (_EQUAL, 2, 0, _INET)
        yield (_EQUAL, 1, 0, _INET6)
        yield refused
        yield (_LOAD, 0, 0, _ARGUMENTS + 8)
        yield (_AND, 0, 0, _KIND_BITS)
        yield (_EQUAL, 1, 0, _STREAM)
        yield refused
        yield (_ANSWER, 0, 0, _ALLOW)
