"""The present state in the store before a refresh: ours, that of another writer, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odf_protocol.kartothek.keys import state_keys
from odf_protocol.kartothek.state import MAX_STATE_BYTES, State

from ...stores.ports import KeyedStore
from ...stores.ports.keyed_values import Content
from .found import find_state
from .publication import PublicationConflict, content_hash
from .records import Record, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The present state in the store. `written` and `state` are None if it is not ours."""

    written: Written | None
    state: State | None
    files: Mapping[str, Content]
    """State files in the store, by key."""
    taken: frozenset[str]
    """Keys that readers may still read; no other content may be written under them."""
    left: Mapping[str, int]
    """Files that may have to be deleted, with the time since which they are unused; 0: now."""


def standing(store: KeyedStore, uuid: str, record: Record, *, force: bool) -> Standing:
    """Read the state files. Raise `PublicationConflict` if one is not ours and `force` is off."""
    contents = {key: store.read(key, most=MAX_STATE_BYTES) for key in state_keys(uuid)}
    files = {key: content for key, content in contents.items() if content is not None}
    ours = record.ours
    foreign = [key for key, each in files.items() if content_hash(each.raw) not in ours]
    if foreign and not force:
        raise PublicationConflict(foreign[0])
    if foreign or not files:
        listed = {info.key for info in store.list(uuid)}
        return Standing(
            written=None,
            state=None,
            files=files,
            taken=frozenset(listed if foreign else ()),
            left=dict.fromkeys(listed, 0),
        )
    written = ours[content_hash(next(iter(files.values())).raw)]
    state = find_state(store, uuid).state
    left = {**_leftovers(record, written), **written.dropped, **dict.fromkeys(_files(state), 0)}
    return Standing(
        written=written,
        state=state,
        files=files,
        taken=frozenset({*_files(state), *written.dropped}),
        left=left,
    )


def _leftovers(record: Record, written: Written) -> dict[str, int]:
    """Return the files of runs that broke off before they wrote their state file."""
    unfinished = [each for each in record.begun if each.state_hash != written.state_hash]
    return {key: 0 for each in unfinished for key in (*each.keys, *each.dropped)}


def _files(state: State) -> list[str]:
    data = [key for files in (state.partitions or {}).values() for key in files.values()]
    return [*data, *(key for key in state.indices.values() if isinstance(key, str))]
