"""Programs that tests start: where they import from, and what they cost."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from odf_storage.runtime.processes import import_places

ROOT = Path(__file__).parents[2]
PLACES = (*import_places("odf_node", "odf_workers", "odf_conformance", "odf_migrations"), str(ROOT))
"""Where this process has our packages from, which is not where they are installed if a protection
was taken out of a copy; and the root, which has the tests."""


def python_path(*more: Path) -> str:
    """Return `PYTHONPATH` of a program that imports what this process would, and from `more`."""
    return os.pathsep.join((*PLACES, *map(str, more)))


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of its descendants, those that ended included."""
    ticks, words = os.sysconf("SC_CLK_TCK"), _words()
    return sum(
        sum(map(int, words[each][11:15])) / ticks for each in _tree(process, words) if each in words
    )


def descendants(process: int) -> set[int]:
    """The processes that it began, and those that they began."""
    return _tree(process, _words()) - {process}


def bytes_read(process: int) -> int:
    """Bytes that it and its descendants have read so far from descriptors of any kind, files from
    the cache included. One that has ended counts as its parent."""
    total = 0
    for each in {process} | descendants(process):
        with suppress(OSError):  # it may end meanwhile
            total += int(Path(f"/proc/{each}/io").read_text().split()[1])
    return total


def held_bytes(processes: set[int]) -> int:
    """Memory of processes that live; a page that several share is counted once."""
    held = 0
    for each in processes:
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        held += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return held


def _words() -> dict[int, list[str]]:
    """What the kernel tells of each process, from its state on."""
    told = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            told[int(stat.parent.name)] = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
    return told


def _tree(process: int, words: dict[int, list[str]]) -> set[int]:
    tree, size = {process}, 0
    while len(tree) > size:
        size = len(tree)
        tree |= {child for child, told in words.items() if int(told[1]) in tree}
    return tree


def own_cpu_seconds(process: int) -> float:
    """Processor time of a process alone."""
    words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def with_work(nursery: int | None) -> list[int]:
    """Children of a nursery that have work: those that wait still have its standard input."""
    if nursery is None:
        return []
    children = Path(f"/proc/{nursery}/task/{nursery}/children").read_text().split()
    return [int(each) for each in children if _input_of(each) == os.devnull]


def _input_of(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/fd/0").readlink())
    except OSError:  # it has ended
        return ""
