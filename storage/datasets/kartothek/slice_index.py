"""The node's own index of a dataset as what is known of its slices."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from odf_node.protocol.kartothek.errors import MalformedIndex, MalformedPredicate
from odf_node.protocol.kartothek.index import LABEL
from odf_node.protocol.kartothek.predicates import Term

from ...runtime.logs import line
from ..pruning.plan import Mask
from .index_files import IndexFiles, OpenFile
from .index_place import IndexRef
from .own_index import OwnIndex, block_of, opened_index
from .select import index_pairs

_log = logging.getLogger("odf.kartothek")


def own_slice_indices(open_file: OpenFile, said: IndexRef | None) -> list[OwnSliceIndex]:
    """The index that is meant, by files that somebody opens; none if there is another by now."""
    index = None if said is None else opened_index(IndexFiles(open_file), said.uuid)
    if said is None or index is None or str(index.head) != said.head:
        return []
    return [OwnSliceIndex(index, said.sequences)]


class OwnSliceIndex:
    """A `SliceIndex` for slices of the history that the index was made of.

    Slices of blocks that the index does not cover may hold anything.
    """

    def __init__(self, index: OwnIndex, sequences: Sequence[int]) -> None:
        """`sequences`: numbers of the blocks of the slices, in their order."""
        self._index, self._sequences = index, np.array(sequences, np.int64)
        labels = [each.label for each in index.table.partitions]
        self._labels = pa.array(labels, pa.string())
        self._is_covered = self._among(labels)

    def may_hold(self, term: Term) -> Mask | None:
        if term.column not in self._index.columns:
            return None
        labels: set[str] = set()
        try:
            for pairs in index_pairs(
                self._index.table, term.column, self._labels, [term], is_ours=True
            ):
                labels.update(pairs[LABEL].to_pylist())
        except (MalformedIndex, MalformedPredicate) as unusable:
            _log.warning(line("index not used", column=term.column, reason=unusable.message))
            return None
        return self._among(labels) | ~self._is_covered

    def _among(self, labels: Sequence[str] | set[str]) -> Mask:
        blocks = [block for label in labels if (block := block_of(label)) is not None]
        return np.isin(self._sequences, np.array(blocks, np.int64))
