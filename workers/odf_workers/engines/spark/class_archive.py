"""Class archives: files of Spark's classes that a JVM maps into memory, which halves its start.

`odf-worker class-archive` makes them for the Java and the jars of this installation. Every JVM
compares both with those of the archive, and ignores the archive if anything differs, so it may be
old or missing. The JVM does not check whether the files are complete; `using` does.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "odf-node"
"""Default folder; it is part of the installation, because the JVM runs what it maps from here."""
JAVA, SPARK = "java.jsa", "spark.jsa"
"""File names of two archives: the classes of Java, for which not every Java includes an archive;
and all other classes, which builds on the first."""
INDEX = "classes.json"
"""Name of the file with the subfolder and the sizes of both archives; it is written last."""
QUIET = ("-Xlog:disable", "-Xlog:all=error,cds*=off:stderr")
"""Flags that keep standard output free for results, and say nothing of archives: Java does without
those that do not fit."""


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
        index = json.loads((folder / INDEX).read_text())
        archives = [folder / index["folder"] / name for name in (JAVA, SPARK)]
        if any(path.stat().st_size != index["sizes"][path.name] for path in archives):
            return ()
    except (OSError, ValueError, LookupError, TypeError):
        return ()
    both = os.pathsep.join(map(str, archives))
    return (f"-XX:SharedArchiveFile={both}", "-Xshare:auto", *QUIET)


def publish(made: Path) -> int:
    """Use the archives in `made`, a subfolder of the folder of archives, from now on, and remove
    earlier ones; return their size in bytes. Raise `FileNotFoundError`.

    They stay where they were made: the second archive names the path of the first. A JVM that
    starts meanwhile may miss files of earlier archives, and uses none.
    """
    folder, sizes = made.parent, {}
    for name in (JAVA, SPARK):
        with (made / name).open("rb") as file:
            os.fsync(file.fileno())
        sizes[name] = (made / name).stat().st_size
        (made / name).chmod(0o644)
    made.chmod(0o755)
    index = made / INDEX
    index.write_text(json.dumps({"folder": made.name, "sizes": sizes}))
    index.chmod(0o644)
    index.replace(folder / INDEX)
    for other in folder.iterdir():
        if other.is_dir() and other != made:
            shutil.rmtree(other, ignore_errors=True)
    return sum(sizes.values())
