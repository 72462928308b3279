"""What a confined process may do: values only, which a parent writes and a child reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

Mode = Literal["auto", "require", "off"]
Sockets = Literal["none", "stream", "any"]

ENVIRONMENT = ("PATH", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "JAVA_HOME", "LD_LIBRARY_PATH")
"""Variables a confined process is given, and those that begin with `LC_`."""
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
"""What programs and their libraries read of a machine; none of it is a secret of the node."""
SYSTEM_WRITES = ("/dev/null",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one process may do. What does not exist among the paths is passed over.

    Ports are those of TCP; 0 allows to bind to a free port; None allows all of them.
    """

    reads: tuple[str, ...] = ()
    """Files, and folders with all below, that may be read and executed."""
    writes: tuple[str, ...] = ()
    """Those that may be changed as well."""
    connects: tuple[int, ...] | None = ()
    binds: tuple[int, ...] | None = ()
    sockets: Sockets = "none"
    """Which sockets may be made: none, TCP only, or any (datagrams and local sockets too)."""
    starts: bool = False
    """Whether it may start processes."""
    address_space: int | None = None
    """Most bytes it may map; `data`: most bytes it may map to write to."""
    data: int | None = None
    cpu_s: int | None = None
    """Seconds of processor time after which the kernel ends it."""
    file_bytes: int | None = None
    """Longest file it may write."""
    open_files: int | None = None
    mode: Mode = "auto"
    """`auto`: as far as the kernel can; `require`: wholly or not at all; `off`: limits only."""

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> Rules:
        """Raises `ValueError`."""
        given: Any = json.loads(text)
        known = {each.name for each in fields(cls)}
        if not isinstance(given, dict) or not known.issuperset(given):
            raise ValueError("these are no rules of confinement")
        return cls(**{name: _frozen(value) for name, value in given.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def program_reads() -> tuple[str, ...]:
    """What a child with this interpreter and our packages reads before it does anything."""
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    return tuple(dict.fromkeys((*SYSTEM_READS, *prefixes, *_rooms())))


def _rooms() -> list[str]:
    """Our package, and its rooms, which are links in a checkout; the folder around it may be the
    administrator's."""
    package = Path(__file__).parents[2]
    inside = [each for each in package.iterdir() if each.is_dir()]
    return [str(each.resolve()) for each in (package, *inside)]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a confined process: an allow-list of ours, and `more`."""
    named = {key: value for key, value in os.environ.items() if _is_plain(key)}
    return {**named, **(more or {})}


def _is_plain(name: str) -> bool:
    return name in ENVIRONMENT or name.startswith("LC_")


def launcher(rules: Rules) -> list[str]:
    """What goes before a command so that it runs confined: `[*launcher(rules), *command]`."""
    return program("odf_node.workers.confine", rules.text(), "--")


_RUN = (
    "import runpy, sys; _, place, *sys.argv = sys.argv; sys.path.insert(0, place); "
    "runpy.run_module(sys.argv[0], run_name='__main__')"
)


def program(module: str, *arguments: str) -> list[str]:
    """A command that runs a module of ours, out of the same folder as this one, whatever the
    environment and the folder it is started in say."""
    place = str(Path(__file__).parents[3])
    return [sys.executable, "-P", "-c", _RUN, place, module, *arguments]
