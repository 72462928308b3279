"""The node's own index of a dataset as a `SliceIndex` for pruning."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from odf_protocol.kartothek.errors import MalformedIndex, MalformedPredicate
from odf_protocol.kartothek.index import LABEL
from odf_protocol.kartothek.predicates import Term
from odf_protocol.kartothek.types import normalised

from ...runtime.logs import line
from ...stores.ports import KeyedReads
from ..pruning.plan import Mask
from .index_files import IndexFiles, OpenFile
from .index_place import IndexRef
from .own_index import block_of
from .select import own_pairs

_log = logging.getLogger("odf.kartothek")


def own_slice_indices(
    open_file: OpenFile, said: IndexRef | None, schema: pa.Schema
) -> list[OwnSliceIndex]:
    """Return the index as a list, empty without one. `open_file` opens its files; `schema` has the
    types of the columns."""
    return [] if said is None else [OwnSliceIndex(IndexFiles(open_file), said, schema)]


class OwnSliceIndex:
    """A `SliceIndex` for slices of the history from which the index was made.

    Slices of blocks that the index does not cover may have any value.
    """

    def __init__(self, store: KeyedReads, said: IndexRef, schema: pa.Schema) -> None:
        self._store, self._said, self._schema = store, said, schema

    def may_hold(self, term: Term) -> Mask | None:
        key = self._said.files.get(term.column)
        if key is None:
            return None
        column_type = normalised(self._schema.field(term.column).type)
        known, labels = pa.array(self._said.labels, pa.string()), set[str]()
        try:
            for pairs in own_pairs(self._store, key, term, column_type, known):
                labels.update(pairs[LABEL].to_pylist())
        except (MalformedIndex, MalformedPredicate) as unusable:
            _log.warning(line("index not used", column=term.column, reason=unusable.message))
            return None
        return self._among(labels) | ~self._among(self._said.labels)

    def _among(self, labels: Iterable[str]) -> Mask:
        blocks = [block for label in labels if (block := block_of(label)) is not None]
        return np.isin(np.array(self._said.sequences, np.int64), np.array(blocks, np.int64))
