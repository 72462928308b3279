"""What the chain of a dataset says as of a block, remembered: it never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.read.view import Outline

Key = tuple[DatasetId, Multihash]


class OutlineMemory:
    """Outlines that were asked for last, up to so many slices in sum."""

    def __init__(self, max_slices: int) -> None:
        self._max_slices = max_slices
        self._known: OrderedDict[Key, Outline] = OrderedDict()
        self._slices = 0
        self._lock = threading.Lock()

    def get(self, dataset: DatasetId, head: Multihash, make: Callable[[], Outline]) -> Outline:
        """The outline, made if it is not known; of several threads each may make it."""
        key = (dataset, head)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        outline = make()
        with self._lock:
            if key not in self._known:
                self._known[key] = outline
                self._slices += _weight(outline)
            while self._slices > self._max_slices and len(self._known) > 1:
                _, oldest = self._known.popitem(last=False)
                self._slices -= _weight(oldest)
        return outline


def _weight(outline: Outline) -> int:
    return len(outline.slices) + 1
