"""What a process and all that descend from it have used: bytes read, files from the cache included,
and time of the processor."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def bytes_read(process: int) -> int:
    """From descriptors of any kind, so far. One that has ended counts as its parent."""
    total = 0
    for pid in _family(process):
        with suppress(OSError):  # it may end meanwhile
            total += int(Path(f"/proc/{pid}/io").read_text().split()[1])
    return total


def processor_seconds(process: int) -> float:
    """Seconds of the processor so far. A process that has ended counts as its parent."""
    ticks = 0
    for pid in _family(process):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _family(process: int) -> list[int]:
    found = [process]
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found.extend(int(each) for each in (task / "children").read_text().split())
    return found
