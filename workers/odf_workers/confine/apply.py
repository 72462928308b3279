"""Confine this process before it runs untrusted code, and report what the kernel can confine."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Sequence

from odf_storage.runtime.processes import prctl

from . import landlock, seccomp
from .landlock import SET_NO_NEW_PRIVILEGES, drop_capabilities
from .rules import Mode, Rules

SETTING = "ODF_WORKER_ENGINE_CONFINEMENT"
CALLS = "calls"
"""The part that the filter of system calls confines; Landlock confines the others."""
PARTS = {
    "files": "any file its user may",
    "tcp": "any address by TCP",
    "signals": "other processes of its user by signals and abstract sockets",
    CALLS: "any address by datagrams and local sockets, and other programs",
}
"""Parts to confine, and what untrusted code could otherwise reach."""


class CannotConfine(Exception):
    """This kernel cannot do all that the rules require."""


def missing(mode: Mode = "auto") -> Sequence[str]:
    """Return the parts that are not confined here, so that untrusted code could reach them; empty
    if none."""
    if mode == "off":
        return tuple(PARTS)
    found = landlock.missing(landlock.version())
    return (*found, *([] if seccomp.is_possible() else [CALLS]))


def told(mode: Mode) -> str | None:
    """Return a sentence for an administrator about missing confinement; None if nothing is
    missing."""
    if not (found := missing(mode)):
        return None
    reaches = "; ".join(PARTS[what] for what in found)
    why = "a setting says so" if mode == "off" else "the kernel cannot keep it from that"
    return f"code of strangers in engines could reach: {reaches}. Why: {why} ({SETTING}={mode})"


def confine(rules: Rules) -> None:
    """Apply the rules to this process, irrevocably. The process must have a single thread.

    Raises:
        CannotConfine: the kernel cannot do what the rules require, or there are more threads.
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
    except OSError as refused:  # the kernel announced that it can do this: do not run without it
        raise CannotConfine(f"the kernel refuses to confine: {refused}") from None


def check_alone() -> None:
    """Raise `CannotConfine` if this process has more than one thread."""
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 - names alone
        raise CannotConfine("a process is confined before it has threads, which would stay free")


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
            # The first limit of processor time sends a signal, which can be reported; the second
            # just kills.
            hard = most + 1 if kind == resource.RLIMIT_CPU and most != given else most
            resource.setrlimit(kind, (most, hard))
