"""Write a state of a dataset so that all readers can read it: data, schema, indices, then state.

If it breaks off before the state file is swapped, readers still see the former state. Source:
Kartothek dataset format 4, "Committing"; "Writer profile".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...stores.objects.files import READ_BYTES
from ...stores.ports import KeyedStore
from ...stores.ports.keyed_values import LinkSource

Chunks = Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Files of a new state that are not in the store yet, by key."""

    state_key: str
    state: bytes
    links: Mapping[str, LinkSource] = field(default_factory=dict)
    data: Mapping[str, Chunks] = field(default_factory=dict)
    schema: Mapping[str, bytes] = field(default_factory=dict)
    indices: Mapping[str, bytes] = field(default_factory=dict)

    def keys(self) -> tuple[str, ...]:
        """Return the keys of slices, data files and indices."""
        return (*self.links, *self.data, *self.indices)


def write_changes(store: KeyedStore, changes: Changes, *, expected: str | None) -> None:
    """Write all files, then swap the state file with the tag `expected`. Raise `SwapLost`."""
    for key, source in changes.links.items():
        store.link(key, source)
    for key, chunks in changes.data.items():
        store.put(key, chunks())
    for key, raw in (*changes.schema.items(), *changes.indices.items()):
        store.put(key, (raw,))
    store.swap(changes.state_key, changes.state, expected=expected)


def write_data_file(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a data file that the oldest readers can read: Snappy, plain or dictionary pages."""
    with pq.ParquetWriter(path, schema, compression="snappy", version="2.6") as writer:
        for batch in batches:
            writer.write_batch(batch)


def chunks_of(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    with path.open("rb") as stream:
        yield from iter(lambda: stream.read(READ_BYTES), b"")
