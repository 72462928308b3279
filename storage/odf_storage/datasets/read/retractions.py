"""Find retractions of a changelog that retract no valid row.

Rows are compared by all their values, event time included; keys play no part, so that this works
for derivatives too. Rows are read twice in the order of their offsets, or not at all if the
changelog has no retractions; memory grows with the number of retracted rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Any

from odf_protocol.chain.state import Vocab
from odf_protocol.multihash import Multihash

from ...stores.objects.layout import object_path
from ...stores.ports.values import ObjectKind
from ..job_payloads.verify_report import Problem
from ..verify.source import ChainSource
from .read import scanning
from .rows import CORRECT_FROM, RETRACT, Scan, contents, is_one_of, takes_back
from .view import view_of

UNFOUNDED = "RetractionUnfounded"
SHOWN_OFFSETS = 10
"""Limit of offsets of one slice that a note lists."""


def changelog_notes(source: ChainSource) -> Iterator[Problem]:
    """Yield a note for each slice with unfounded retractions.

    Raises the errors of reading a dataset; the caller has verified before that it is whole.
    """
    view = view_of(source)
    found: dict[str, list[int]] = {}
    names = {data.offset_interval.start: str(data.physical_hash) for data, _ in view.slices}
    starts = sorted(names)
    with scanning(view) as scan:
        for offset in unfounded(scan, view.vocab):
            first = starts[bisect_right(starts, offset) - 1]
            found.setdefault(names[first], []).append(offset)
    for data, offsets in found.items():
        more = ", …" if offsets[SHOWN_OFFSETS:] else ""
        shown = ", ".join(map(str, offsets[:SHOWN_OFFSETS]))
        yield Problem(
            kind=UNFOUNDED,
            reason=UNFOUNDED,
            message=f"{len(offsets)} row(s) take back a row that does not stand, at offset "
            f"{shown}{more}",
            path=str(object_path(ObjectKind.DATA, Multihash.parse(data))),
        )


def unfounded(scan: Scan, vocab: Vocab) -> Iterator[int]:
    """Yield the offsets of retractions that retract no valid row."""
    if not takes_back(scan, vocab):
        return
    wanted = {
        content
        for batch in scan(None, None)
        for _, content in contents(batch.filter(is_one_of(batch, vocab, *_GONE)), vocab)
    }
    standing: Counter[tuple[Any, ...]] = Counter()
    for batch in scan(None, None):
        codes = batch.column(vocab.operation_type_column).to_pylist()
        for code, (offset, content) in zip(codes, contents(batch, vocab), strict=True):
            if content not in wanted:
                continue
            if code not in _GONE:
                standing[content] += 1
            elif standing[content]:
                standing[content] -= 1
            else:
                yield offset


_GONE = (RETRACT, CORRECT_FROM)
