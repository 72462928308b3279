"""Spark's classes as a JVM has them in memory, in files that the next one maps: half its start.

`odf-worker class-archive` makes them, for the Java and the jars of this installation. Every JVM
compares both with what the files were made of, and goes without them if anything differs; so
they may be old, or missing. What it does not look at is whether they are whole.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "odf-node"
"""Part of the installation, as what is mapped from here is run."""
JAVA, SPARK = "java.jsa", "spark.jsa"
"""The classes of Java itself, which not every Java comes with, and on top of them all others."""
SIZES = "classes.json"
"""How large both have to be; the last to be written."""
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Standard output is for answers; that files are old is said there otherwise."""


def dumping(folder: Path) -> tuple[str, ...]:
    """Flags of a JVM that keeps Java's own classes there, and ends."""
    return ("-Xshare:dump", f"-XX:SharedArchiveFile={folder / JAVA}", *QUIET)


def recording(folder: Path) -> tuple[str, ...]:
    """Flags of a JVM that keeps there what it used by its end, on top of those of `dumping`."""
    below, top = folder / JAVA, folder / SPARK
    return (f"-XX:SharedArchiveFile={below}", f"-XX:ArchiveClassesAtExit={top}", *QUIET)


def using(folder: Path = FOLDER) -> tuple[str, ...]:
    """Flags of a JVM that takes its classes from there; none if they are not there, and whole."""
    try:
        sizes = json.loads((folder / SIZES).read_text())
        if any((folder / name).stat().st_size != sizes[name] for name in (JAVA, SPARK)):
            return ()
    except (OSError, ValueError, LookupError):
        return ()
    both = os.pathsep.join(str(folder / name) for name in (JAVA, SPARK))
    return (f"-XX:SharedArchiveFile={both}", "-Xshare:auto", *QUIET)


def publish(made: Path, folder: Path) -> int:
    """Put both files in place of what was there; how large they are. Raises `FileNotFoundError`.

    Who looks in between finds sizes that do not fit, or files that do not belong together.
    """
    sizes = {}
    for name in (JAVA, SPARK):
        with (made / name).open("rb") as file:
            os.fsync(file.fileno())
        sizes[name] = (made / name).stat().st_size
    (made / SIZES).write_text(json.dumps(sizes))
    for name in (JAVA, SPARK, SIZES):
        (made / name).chmod(0o644)
        (made / name).replace(folder / name)
    return sum(sizes.values())
