"""Confining the process at hand, before it runs code of strangers; and what the kernel can."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Sequence

from . import landlock, seccomp
from .rules import Mode, Rules
from .system import SET_DUMPABLE, SET_NO_NEW_PRIVILEGES, drop_capabilities, prctl

SETTING = "ODF_WORKER_ENGINE_CONFINEMENT"
CALLS = "calls"
"""What the filter of system calls confines; the other words are Landlock's."""
PARTS = {
    "files": "any file its user may",
    "tcp": "any address by TCP",
    "signals": "other processes of its user by signals and abstract sockets",
    CALLS: "any address by datagrams and local sockets, and other programs",
}
"""What there is to be kept from, and what could be reached otherwise."""


class CannotConfine(Exception):
    """This kernel cannot do all that the rules require."""


def missing(mode: Mode = "auto") -> Sequence[str]:
    """What strangers' code could reach here although it should not; empty if nothing."""
    if mode == "off":
        return tuple(PARTS)
    found = landlock.missing(landlock.version())
    return (*found, *([] if seccomp.is_possible() else [CALLS]))


def told(mode: Mode) -> str | None:
    """One sentence about what is missing, for an administrator; None if nothing is."""
    if not (found := missing(mode)):
        return None
    reaches = "; ".join(PARTS[what] for what in found)
    why = "a setting says so" if mode == "off" else "the kernel cannot keep it from that"
    return f"code of strangers in engines could reach: {reaches}. Why: {why} ({SETTING}={mode})"


def confine(rules: Rules) -> None:
    """Hold this process to the rules, for good. It has one thread so far.

    Raises:
        CannotConfine: the rules require what the kernel cannot do, or there are more threads.
    """
    _limit(rules)
    prctl(SET_NO_NEW_PRIVILEGES, 1)
    if rules.mode == "off":
        return
    if rules.mode == "require" and (lacking := told("require")) is not None:
        raise CannotConfine(lacking)
    check_alone()
    try:
        if version := landlock.version():
            landlock.restrict(rules, version)
        with contextlib.suppress(OSError):  # it may have none, or may not change them
            drop_capabilities()
        if seccomp.is_possible():
            seccomp.restrict(rules)
    except OSError as refused:  # of what the kernel said that it can: not run without
        raise CannotConfine(f"the kernel refuses to confine: {refused}") from None


def check_alone() -> None:
    """Raises `CannotConfine` if this process has more threads than one."""
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - names alone
        raise CannotConfine("a process is confined before it has threads, which would stay free")


def close_own_memory() -> None:
    """Keep other processes of this user out of this one's memory and environment, where that is
    the kernel's custom. What it starts is open again."""
    with contextlib.suppress(OSError, AttributeError):
        prctl(SET_DUMPABLE, 0)


def _limit(rules: Rules) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: rules.address_space,
        resource.RLIMIT_DATA: rules.data,
        resource.RLIMIT_CPU: rules.cpu_s,
        resource.RLIMIT_FSIZE: rules.file_bytes,
        resource.RLIMIT_NOFILE: rules.open_files,
    }
    for kind, most in limits.items():
        if most is not None:
            _, given = resource.getrlimit(kind)
            most = most if given == resource.RLIM_INFINITY else min(most, given)
            # Of processor time the first limit is told by its signal, the second just kills.
            hard = most + 1 if kind == resource.RLIMIT_CPU and most != given else most
            resource.setrlimit(kind, (most, hard))
