"""Overviews of datasets, computed from their chains whenever a head has moved.

Sizes of a node for monitoring, read by a few cheap queries.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash

from ...stores.ports.overviews import ListedOverview, Overview
from ...stores.ports.values import JobStatus
from ...stores.registers.datasets.damages import damages
from ...stores.registers.datasets.overviews import overviews
from ...stores.sql.engine import reading
from ...stores.sql.tables import datasets, jobs, moves
from .stores import Stores

AT_ONCE = 200
"""Limit of overviews computed for one transaction."""
MAX_DESCRIPTION_CHARS = 2000
MAX_KEYWORDS, MAX_KEYWORD_CHARS = 50, 100
MAX_LICENSE_CHARS = 100
MAX_COLUMNS = 200
"""Limit of the columns whose names a search finds."""
SYSTEM_COLUMNS = 4
"""Number of columns of the system, which a schema has first."""
NEWEST = 24
"""Number of newest blocks whose rows are drawn."""
MAX_NUMBER = 2**63 - 1
"""Limit of the database; chains of strangers may claim larger numbers."""
_log = logging.getLogger("odf.overviews")


def bring_up(stores: Stores, *, limit: int = AT_ONCE) -> int:
    """Compute overviews that are missing or behind their heads. Return how many were due."""
    due = stores.overviews.due(limit=limit)
    heads = stores.refs.heads(due)
    if heads:
        stores.overviews.put({one: _as_of(stores, one, head) for one, head in heads.items()})
    return len(due)


def overview_now(stores: Stores, listed: ListedOverview) -> Overview:
    """Return the overview that a list shows of the dataset, as of its head."""
    if listed.overview is not None and listed.overview.head == listed.head:
        return listed.overview
    return _as_of(stores, listed.entry.id, listed.head)


def overview_of(state: ChainState, head: Multihash, added: Sequence[int] = ()) -> Overview:
    """Return the overview of a chain as of `head`; `added` are the rows of its newest blocks."""
    said, license_ = state.info, state.license
    keywords = (said.keywords or ()) if said else ()
    columns = state.data_schema.fields[SYSTEM_COLUMNS:] if state.data_schema else ()
    return Overview(
        head=head,
        records=min(state.num_records, MAX_NUMBER),
        data_size=min(state.data_size, MAX_NUMBER),
        blocks=state.num_blocks,
        updated_at=state.system_time or Instant(0),
        description=_text(said.description if said else None, MAX_DESCRIPTION_CHARS),
        license=_text(license_.short_name if license_ else None, MAX_LICENSE_CHARS),
        keywords=tuple(_text(one, MAX_KEYWORD_CHARS) or "" for one in keywords[:MAX_KEYWORDS]),
        added=tuple(min(rows, MAX_NUMBER) for rows in added),
        columns=tuple(_text(one.name, MAX_KEYWORD_CHARS) or "" for one in columns[:MAX_COLUMNS]),
    )


def _as_of(stores: Stores, dataset: DatasetId, head: Multihash) -> Overview:
    """Return the overview as of `head`. It is empty for a chain that cannot be read: fsck reports
    that chain, and lists still show all others."""
    try:
        with stores.reading() as reader:
            state = reader.chain(dataset).state(head)
            newest = reader.blocks.ancestors(dataset, head, limit=NEWEST)
    except NodeError:
        _log.warning("no overview of %s as of %s", dataset, head, exc_info=True)
        return overview_of(ChainState(), head)
    return overview_of(state, head, [rows for block in newest[::-1] if (rows := _rows(block))])


def _rows(block: HashedBlock) -> int:
    """Return how many rows the block adds."""
    if not isinstance(block.event, AddData | ExecuteTransform) or block.event.new_data is None:
        return 0
    interval = block.event.new_data.offset_interval
    return interval.count


def _text(text: str | None, most: int) -> str | None:
    """Return the text as a database accepts it: shortened, without NUL and half surrogate pairs."""
    if text is None:
        return None
    return text[:most].replace("\0", "").encode(errors="ignore").decode()


_OPEN = (JobStatus.WAITING.value, JobStatus.RUNNING.value)


@dataclass(frozen=True, slots=True)
class Gauges:
    """Number of datasets; jobs that wait or run, by kind and status; number of the newest head
    move."""

    datasets: int = 0
    jobs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    waiting_since: Mapping[str, Instant] = field(default_factory=dict)
    """For each kind of job, when the longest waiting job was submitted."""
    last_move: int = 0
    damaged: int = 0
    """Number of objects that are damaged or missing."""
    data_size: int = 0
    """Bytes of the data of all datasets, according to their chains."""


def read_gauges(engine: sa.Engine) -> Gauges:
    """Return the current values."""
    amount = sa.func.count()
    open_jobs = (
        sa.select(jobs.c.kind, jobs.c.status, amount, sa.func.min(jobs.c.submitted_at))
        .where(jobs.c.status.in_(_OPEN))
        .group_by(jobs.c.kind, jobs.c.status)
    )
    with reading(engine) as db:
        rows = db.execute(open_jobs).all()
        return Gauges(
            datasets=db.scalar(sa.select(amount).select_from(datasets)) or 0,
            jobs={(kind, status): count for kind, status, count, _ in rows},
            waiting_since={kind: since for kind, status, _, since in rows if status == _OPEN[0]},
            damaged=db.scalar(
                sa.select(amount).select_from(damages).where(damages.c.healed_at.is_(None))
            )
            or 0,
            data_size=int(db.scalar(sa.select(sa.func.sum(overviews.c.data_size))) or 0),
            last_move=db.scalar(sa.select(sa.func.max(moves.c.number))) or 0,
        )
