"""What a worker remembers of blocks and slices between questions about rows: they never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.pruning.learned import REMEMBERED_BOUNDS, LearnedBounds
from odf_storage.datasets.read.view import Outline, outline_of

from ...plan.transform import InputPlan

REMEMBERED_SLICES = 100_000
"""Limit of slices in the remembered outlines, and in the remembered plans."""
T = TypeVar("T")


class Recent(Generic[T]):
    """A cache that drops the least recently used entries first; safe to use from several
    threads."""

    def __init__(self, most: int, weight: Callable[[T], int]) -> None:
        """`most` is the limit of the weight of all entries."""
        self._most, self._weight, self._total = most, weight, 0
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, made: Callable[[], T]) -> T:
        """Return the entry; make it if it is not there."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = made()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value
                self._total += 1 + self._weight(value)
            while self._total > self._most:
                self._total -= 1 + self._weight(self._kept.popitem(last=False)[1])
        return value


def _outlines() -> Recent[Outline]:
    return Recent(REMEMBERED_SLICES, lambda outline: len(outline.slices))


def _inputs() -> Recent[InputPlan]:
    return Recent(REMEMBERED_SLICES, lambda item: len(item.slices))


@dataclass(frozen=True)
class Memory:
    """The memory of one worker."""

    bounds: LearnedBounds = field(default_factory=lambda: LearnedBounds(REMEMBERED_BOUNDS))
    """Bounds of slices in which rows were looked for."""
    outlines: Recent[Outline] = field(default_factory=_outlines)
    inputs: Recent[InputPlan] = field(default_factory=_inputs)
    """Parts of inputs that executions read."""

    def outline(self, dataset: Dataset, at: Multihash) -> Outline:
        """Return the outline of a dataset as of a block."""
        return self.outlines.get((dataset.id, at), lambda: outline_of(dataset, at))
