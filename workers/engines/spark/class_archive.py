"""Class archives: files of Spark's classes that a JVM maps into memory, which halves its start.

`odf-worker class-archive` makes them for the Java and the jars of this installation. Every JVM
compares both with those of the archive, and ignores the archive if anything differs, so it may be
old or missing. The JVM does not check whether the files are complete; `using` does.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "odf-node"
"""Default folder; it is part of the installation, because the JVM runs what it maps from here."""
JAVA, SPARK = "java.jsa", "spark.jsa"
"""File names of two archives: the classes of Java, for which not every Java includes an archive;
and all other classes, which builds on the first."""
SIZES = "classes.json"
"""Name of the file with the sizes of both archives; it is written last."""
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Flags that keep standard output free for results; Java would report old archives there."""


def dumping(folder: Path) -> tuple[str, ...]:
    """Return flags of a JVM that archives Java's own classes in the folder, and ends."""
    return ("-Xshare:dump", f"-XX:SharedArchiveFile={folder / JAVA}", *QUIET)


def recording(folder: Path) -> tuple[str, ...]:
    """Return flags of a JVM that, at its end, archives the classes that it used. The folder must
    have the archive of `dumping`."""
    below, top = folder / JAVA, folder / SPARK
    return (f"-XX:SharedArchiveFile={below}", f"-XX:ArchiveClassesAtExit={top}", *QUIET)


def using(folder: Path = FOLDER) -> tuple[str, ...]:
    """Return flags of a JVM that uses the archives of the folder; none unless both are complete."""
    try:
        sizes = json.loads((folder / SIZES).read_text())
        if any((folder / name).stat().st_size != sizes[name] for name in (JAVA, SPARK)):
            return ()
    except (OSError, ValueError, LookupError):
        return ()
    both = os.pathsep.join(str(folder / name) for name in (JAVA, SPARK))
    return (f"-XX:SharedArchiveFile={both}", "-Xshare:auto", *QUIET)


def publish(made: Path, folder: Path) -> int:
    """Replace the archives of the folder by those in `made`; return their size in bytes. Raise
    `FileNotFoundError`.

    A JVM that starts meanwhile sees wrong sizes or mismatched files, and uses no archive.
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
