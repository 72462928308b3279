"""Rules for a confined process: plain values, which a parent writes and a child reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from odf_storage.runtime.processes import import_places

Mode = Literal["auto", "require", "off"]
Sockets = Literal["none", "stream", "any"]

ENVIRONMENT = ("PATH", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "JAVA_HOME", "LD_LIBRARY_PATH")
"""Variables that a confined process receives, besides those that begin with `LC_`."""
SYSTEM_READS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm",
    "/proc/self",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
)
"""Paths of a machine that programs and their libraries read; they contain no secret of the node."""
SYSTEM_WRITES = ("/dev/null",)
PLACES = import_places("odf_workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules for one process. Paths that do not exist are ignored.

    Ports are TCP ports; 0 allows to bind to a free port; None allows all ports.
    """

    reads: tuple[str, ...] = ()
    """Files, and folders with their content, that may be read and executed."""
    writes: tuple[str, ...] = ()
    """Files and folders that may also be changed."""
    connects: tuple[int, ...] | None = ()
    binds: tuple[int, ...] | None = ()
    sockets: Sockets = "none"
    """Kinds of sockets that may be created: none, TCP only, or any (also datagrams and local
    sockets)."""
    starts: bool = False
    """Whether the process may start processes."""
    address_space: int | None = None
    """Limit of the bytes that it may map; `data` is the limit of bytes that it may map writable."""
    data: int | None = None
    cpu_s: int | None = None
    """Seconds of processor time after which the kernel ends the process."""
    file_bytes: int | None = None
    """Limit of the bytes of a file that it writes."""
    open_files: int | None = None
    mode: Mode = "auto"
    """`auto`: as far as the kernel can; `require`: completely, or fail; `off`: only resource
    limits."""

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> Rules:
        """Parse rules. Raises `ValueError`."""
        given: Any = json.loads(text)
        known = {each.name for each in fields(cls)}
        if not isinstance(given, dict) or not known.issuperset(given):
            raise ValueError("these are no rules of confinement")
        return cls(**{name: _frozen(value) for name, value in given.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def program_reads() -> tuple[str, ...]:
    """Return the paths that a child with this interpreter and our packages reads at its start."""
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    return tuple(dict.fromkeys((*SYSTEM_READS, *prefixes, *PLACES)))


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a confined process: the allowed variables, and `more`."""
    named = {key: value for key, value in os.environ.items() if _is_plain(key)}
    return {**named, **(more or {})}


def _is_plain(name: str) -> bool:
    return name in ENVIRONMENT or name.startswith("LC_")


def launcher(rules: Rules) -> list[str]:
    """Return the words that make a command run confined: `[*launcher(rules), *command]`."""
    return program("odf_workers.confine", rules.text(), "--")


_RUN = (
    "import os, runpy, sys; _, places, *sys.argv = sys.argv; "
    "sys.path[:0] = places.split(os.pathsep); "
    "runpy.run_module(sys.argv[0], run_name='__main__')"
)


def program(module: str, *arguments: str) -> list[str]:
    """Return a command that runs one of our modules from the places that this one has,
    independent of the environment and the current folder."""
    return [sys.executable, "-P", "-c", _RUN, os.pathsep.join(PLACES), module, *arguments]
