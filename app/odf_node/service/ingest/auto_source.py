"""The push source that the node creates for the first file of a dataset, by the file's format."""

from __future__ import annotations

from odf_protocol.chain.author import author
from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddPushSource, DatasetKind
from odf_protocol.metadata.reading import MergeStrategyAppend
from odf_storage.datasets.dataset.dataset import Datasets
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import DatasetEntry

from ..http.media_types import MEDIA_TYPES, UnsupportedMediaType

AUTO_SOURCE = "auto"
APPEND_ATTEMPTS = 5


def takes_first_source(state: ChainState) -> bool:
    """Return whether a first push source may be added: the dataset is a root without sources."""
    is_root = state.kind is not DatasetKind.Derivative
    return is_root and state.polling_source is None and not state.push_sources


def add_auto_source(
    datasets: Datasets, clock: Clock, entry: DatasetEntry, media_type: str | None
) -> str:
    """Add a push source that reads the format and appends all rows; return its name.

    If another request added the source first, that one is used.

    Raises:
        UnsupportedMediaType, ChainRuleBroken.
        RefConflict: other writers moved the head at every attempt.
    """
    read = MEDIA_TYPES.get(media_type or "")
    if read is None:
        raise UnsupportedMediaType(media_type or "")
    event = AddPushSource(source_name=AUTO_SOURCE, read=read, merge=MergeStrategyAppend())
    dataset = datasets.dataset(DatasetRef(id=entry.id))
    for attempt in range(1, APPEND_ATTEMPTS + 1):
        head = dataset.head()
        state = dataset.state(head)
        if AUTO_SOURCE in state.push_sources:
            break
        now = clock()
        time = now if state.system_time is None else max(now, state.system_time)
        blocks, _ = author(state, (event,), system_time=time)
        try:
            dataset.commit(blocks, expected=head)
        except RefConflict:
            if attempt == APPEND_ATTEMPTS:
                raise
        else:
            break
    return AUTO_SOURCE
