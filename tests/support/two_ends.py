"""Processes share a run from both ends of it, and meet among short files.

Files on Spark come first, the long ones before the others, those that start nodes last. The
first process takes from the front and so has Spark nearly for itself: a session starts once,
and is quicker the longer it lives. All others take from the back, so that nothing long is left
for the end, with one process idle.
What goes to a process as a whole is a file; of the end-to-end tests what shares nodes, those of
one pair of database and object store: the nodes end with it.
"""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

LONG = ("tests/workers/stateful/", "tests/workers/transform/")
"""Of those on Spark: begun last, one of them would go on alone when all else is done."""
OF_A_PAIR = re.compile(r"(tests/e2e)/.*\[(\w+, \w+)\b")


def place(item: pytest.Item) -> int:
    """0 and 1: on Spark, long and short; 3: starts nodes; 2: all others, which are short."""
    if item.get_closest_marker("e2e") is not None:
        return 3
    if item.get_closest_marker("spark") is None:
        return 2
    return 0 if item.nodeid.startswith(LONG) else 1


class TwoEnds(LoadFileScheduling):
    """As `--dist loadfile`, in the order of collection, from both ends."""

    def schedule(self) -> None:
        self.config.option.loadscopereorder = False
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        shared = OF_A_PAIR.match(nodeid)
        return " ".join(shared.groups()) if shared else str(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id != "gw0":
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
