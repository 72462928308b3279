"""Notes for the log of heads: what moved, in the transaction that moves it.

One statement notes the head as it is then, so it runs behind the move, and before a removal.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.trust.heads import HeadKind

from ..objects.layout import HEAD
from ..sql.tables import InstantColumn, blocks, datasets, refs, unlogged_heads

_COLUMNS = ("dataset", "kind", "block", "sequence_number", "visibility", "at")
_CURRENT = (
    sa.select(
        refs.c.dataset,
        sa.bindparam("its_kind", type_=sa.String),
        refs.c.hash,
        blocks.c.sequence_number,
        datasets.c.visibility,
        sa.bindparam("its_time", type_=InstantColumn()),
    )
    .join(datasets, datasets.c.id == refs.c.dataset)
    .outerjoin(blocks, (blocks.c.dataset == refs.c.dataset) & (blocks.c.hash == refs.c.hash))
    .where(refs.c.name == HEAD)
)
_NOTE = sa.insert(unlogged_heads).from_select(
    _COLUMNS, _CURRENT.where(refs.c.dataset == sa.bindparam("its_dataset"))
)


def note_heads(
    db: sa.Connection, moved: Sequence[tuple[DatasetId, HeadKind]], now: Instant
) -> None:
    """Note the present heads of datasets, and how each got there."""
    rows = [{"its_dataset": each, "its_kind": kind.value, "its_time": now} for each, kind in moved]
    if rows:
        db.execute(_NOTE, rows)


def note_missing(db: sa.Connection, unknown: sa.ColumnElement[bool], now: Instant) -> None:
    """Note all heads of which `unknown` says that the log has not seen them.

    The rows are locked in the order in which moves lock them, so that no move comes in between.
    """
    heads = (
        _CURRENT.where(unknown, ~sa.exists().where(unlogged_heads.c.dataset == refs.c.dataset))
        .order_by(refs.c.dataset)
        .with_for_update(read=True, of=refs)
    )
    query = sa.insert(unlogged_heads).from_select(_COLUMNS, heads)
    db.execute(query, {"its_kind": HeadKind.FOUND.value, "its_time": now})
