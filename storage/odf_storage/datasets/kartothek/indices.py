"""Build the indices of a published dataset: join pairs of partitions that stay and new ones.

The present state in the store before a refresh: ours, that of another writer, or none.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odf_protocol.kartothek.keys import MalformedIndex, state_keys
from odf_protocol.kartothek.predicates import (
    VALUE,
    encode_index,
    joined,
    no_pairs,
    pairs_of,
    without_labels,
)
from odf_protocol.kartothek.state import MAX_STATE_BYTES, State

from ...runtime.logs import line
from ...stores.ports import KeyedStore
from ...stores.ports.keyed import KeyedContent
from .definition import Publication, PublicationConflict, content_hash
from .parts import Part, PartColumns, find_state
from .records import Record, WrittenFile
from .select import index_pairs, open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStanding:
    """The present state in the store. `written` and `state` are None if it is not ours."""

    written: WrittenFile | None
    state: State | None
    files: Mapping[str, KeyedContent]
    """State files in the store, by key."""
    taken: frozenset[str]
    """Keys that readers may still read; no other content may be written under them."""
    left: Mapping[str, int]
    """Files that may have to be deleted, with the time since which they are unused; 0: now."""


def standing(store: KeyedStore, uuid: str, record: Record, *, force: bool) -> IndexStanding:
    """Read the state files. Raise `PublicationConflict` if one is not ours and `force` is off."""
    contents = {key: store.read(key, most=MAX_STATE_BYTES) for key in state_keys(uuid)}
    files = {key: content for key, content in contents.items() if content is not None}
    ours = record.ours
    foreign = [key for key, each in files.items() if content_hash(each.raw) not in ours]
    if foreign and not force:
        raise PublicationConflict(foreign[0])
    if foreign or not files:
        listed = {info.key for info in store.list(uuid)}
        return IndexStanding(
            written=None,
            state=None,
            files=files,
            taken=frozenset(listed if foreign else ()),
            left=dict.fromkeys(listed, 0),
        )
    written = ours[content_hash(next(iter(files.values())).raw)]
    state = find_state(store, uuid).state
    left = {**_leftovers(record, written), **written.dropped, **dict.fromkeys(_files(state), 0)}
    return IndexStanding(
        written=written,
        state=state,
        files=files,
        taken=frozenset({*_files(state), *written.dropped}),
        left=left,
    )


def _leftovers(record: Record, written: WrittenFile) -> dict[str, int]:
    """Return the files of runs that broke off before they wrote their state file."""
    unfinished = [each for each in record.begun if each.state_hash != written.state_hash]
    return {key: 0 for each in unfinished for key in (*each.keys, *each.dropped)}


def _files(state: State) -> list[str]:
    data = [key for files in (state.partitions or {}).values() for key in files.values()]
    return [*data, *(key for key in state.indices.values() if isinstance(key, str))]


_log = logging.getLogger("odf.kartothek")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIndices:
    """The index files to write, by column."""

    files: Mapping[str, bytes]
    sizes: Mapping[str, Mapping[str, int]]
    """Number of values, and bytes, of the files to write."""
    skipped: tuple[str, ...]
    """Columns whose index exceeds the limit."""


def built_indices(
    store: KeyedStore,
    data: PartColumns,
    publication: Publication,
    parts: Sequence[Part],
    stands: IndexStanding,
) -> BuiltIndices:
    """Build the indices on the columns of a publication. Read the data of new partitions only,
    unless an old index cannot be used."""
    there = {part.label for part in parts if part.is_there}
    new = [part for part in parts if not part.is_there]
    columns = [
        name for name in publication.secondary_indices if not _is_skipped(name, publication, stands)
    ]
    old = _old_pairs(store, publication.uuid, columns, there, stands)
    rest = [name for name in columns if name in old]
    fresh = _read(data, new, rest)
    anew = _read(data, parts, [name for name in columns if name not in old])
    files, sizes, skipped = {}, {}, []
    for name in columns:
        pairs = joined(
            [
                *([old[name]] if name in old else []),
                *fresh[name],
                *anew[name],
                no_pairs(data.schema.field(name).type),
            ]
        )
        raw = encode_index(name, pairs)
        if len(raw) > publication.max_index_bytes:
            skipped.append(name)
            continue
        files[name] = raw
        sizes[name] = {"values": len(pairs[VALUE].unique()), "bytes": len(raw)}
    before = [name for name in publication.secondary_indices if name not in columns]
    return BuiltIndices(files=files, sizes=sizes, skipped=(*before, *skipped))


def _is_skipped(name: str, publication: Publication, stands: IndexStanding) -> bool:
    """Return whether the index was too large before; it would only have grown."""
    was = stands.written
    return was is not None and was.config == publication.fingerprint() and name in was.skipped


def _old_pairs(
    store: KeyedStore, uuid: str, columns: Sequence[str], there: set[str], stands: IndexStanding
) -> dict[str, pa.Table]:
    """Return the pairs of the partitions that stay, from every index that can be used."""
    if not there or stands.state is None:
        return {}
    table = open_table(store, uuid)
    labels = {partition.label for partition in table.partitions}
    known = pa.array(sorted(labels), pa.string())
    found = {}
    for name in columns:
        if name not in stands.state.indices:
            continue
        try:
            pairs = list(index_pairs(table, name, known))
        except MalformedIndex as unusable:
            _log.warning(line("index built anew", key=unusable.key, reason=unusable.reason))
            continue
        whole = joined([*pairs, no_pairs(table.schema.field(name).type)])
        found[name] = without_labels(whole, labels - there)
    return found


def _read(
    data: PartColumns, parts: Sequence[Part], columns: Sequence[str]
) -> Mapping[str, list[pa.Table]]:
    """Return the pairs of these partitions, from their rows."""
    found: dict[str, list[pa.Table]] = defaultdict(list)
    for part in parts if columns else ():
        for name, values in data.values_of(part, columns).items():
            found[name].append(pairs_of(values, part.label))
    return found
