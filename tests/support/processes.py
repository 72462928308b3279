"""What processes cost."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of its descendants, those that ended included."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents, times = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(words[1])
        times[int(stat.parent.name)] = sum(map(int, words[11:15])) / ticks
    tree, size = {process}, 0
    while len(tree) > size:
        size = len(tree)
        tree |= {child for child, parent in parents.items() if parent in tree}
    return sum(times.get(each, 0.0) for each in tree)


def own_cpu_seconds(process: int) -> float:
    """Processor time of a process alone."""
    words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
