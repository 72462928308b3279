"""Overviews of datasets, computed from their chains whenever a head has moved."""

from __future__ import annotations

import logging

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ...stores.ports.overview_values import Listed, Overview
from .stores import Stores

AT_ONCE = 200
"""Limit of overviews computed for one transaction."""
MAX_DESCRIPTION_CHARS = 2000
MAX_KEYWORDS, MAX_KEYWORD_CHARS = 50, 100
MAX_LICENSE_CHARS = 100
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


def overview_now(stores: Stores, listed: Listed) -> Overview:
    """Return the overview that a list shows of the dataset, as of its head."""
    if listed.overview is not None and listed.overview.head == listed.head:
        return listed.overview
    return _as_of(stores, listed.entry.id, listed.head)


def overview_of(state: ChainState, head: Multihash) -> Overview:
    """Return the overview of a chain as of `head`."""
    said, license_ = state.info, state.license
    keywords = (said.keywords or ()) if said else ()
    return Overview(
        head=head,
        records=min(state.num_records, MAX_NUMBER),
        data_size=min(state.data_size, MAX_NUMBER),
        blocks=state.num_blocks,
        updated_at=state.system_time or Instant(0),
        description=_text(said.description if said else None, MAX_DESCRIPTION_CHARS),
        license=_text(license_.short_name if license_ else None, MAX_LICENSE_CHARS),
        keywords=tuple(_text(one, MAX_KEYWORD_CHARS) or "" for one in keywords[:MAX_KEYWORDS]),
    )


def _as_of(stores: Stores, dataset: DatasetId, head: Multihash) -> Overview:
    """Return the overview as of `head`. It is empty for a chain that cannot be read: fsck reports
    that chain, and lists still show all others."""
    try:
        with stores.reading() as reader:
            state = reader.chain(dataset).state(head)
    except NodeError:
        _log.warning("no overview of %s as of %s", dataset, head, exc_info=True)
        state = ChainState()
    return overview_of(state, head)


def _text(text: str | None, most: int) -> str | None:
    """Return the text as a database accepts it: shortened, without NUL and half surrogate pairs."""
    if text is None:
        return None
    return text[:most].replace("\0", "").encode(errors="ignore").decode()
