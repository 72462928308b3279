"""Publish a dataset as a Kartothek dataset: every refresh is one swap of its state file.

A refresh compares the chain with the present state in the store. Partitions that stay are neither
read nor written again.

Data files of partitions that are not a slice: without dead rows, or with later columns.

Split the rows of a slice into partitions by the values of partition columns.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.kartothek.keys import (
    TABLE,
    UnsupportedColumn,
    checked_uuid,
    data_key,
    index_key,
    partition_folder,
    schema_key,
    state_keys,
)
from odf_protocol.kartothek.partition_values import (
    encode_schema,
    kind_of,
    normalised,
    table_schema,
    text_of,
)
from odf_protocol.kartothek.state import CREATION_TIME, State, encode_json, encode_msgpack
from odf_protocol.multihash import Multihash

from ...runtime.clock import Clock, system_clock
from ...stores.ports import KeyedStore
from ...stores.ports.errors import SwapLost
from ...stores.ports.values import ObjectKind
from ..dataset.dataset import Dataset
from ..read.read import scanning
from ..read.rows import Scan
from ..read.view import view_of_dataset
from .definition import Mode, Publication, PublicationConflict, Published, StateFormat, content_hash
from .indices import BuiltIndices, IndexStanding, built_indices, standing
from .live import ChainSlice, ChainView, chain_view, standing_rows
from .parts import Part, PartColumns, SliceValues, Split, planned_parts
from .records import KeyedRecords, Record, WrittenFile
from .rows import TableChanges, chunks_of, fitted, write_changes, write_data_file


def written_part(data: PartColumns, part: Part, schema: pa.Schema, path: Path) -> Path:
    """Write a file with the rows of the part in all columns of the schema; return its path."""
    write_data_file(path, schema, _batches(data, part, schema))
    return path


def _batches(data: PartColumns, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if part.source is None:
        return
    for batch in data.scan(None, data.offsets_of(part)):
        columns = [
            fitted(batch.column(field.name), field.type, name=field.name, key=part.label)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


OFFSET = "offset"


class PartitionRows:
    """Splits slices. Caches the last split, since the partitions of a slice are consecutive."""

    def __init__(
        self, scan: Scan, schema: pa.Schema, columns: Sequence[str], offset_column: str
    ) -> None:
        self._scan, self._columns, self._offset = scan, tuple(columns), offset_column
        self._types = {name: normalised(schema.field(name).type) for name in columns}
        self._last: tuple[ChainSlice, int, Mapping[str, np.ndarray[Any, Any]]] | None = None

    def split(
        self, each: ChainSlice, offsets: np.ndarray[Any, Any]
    ) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return sorted offsets by folder. Raise `UnusablePartitionValue`."""
        if self._last is not None and self._last[:2] == (each, len(offsets)):
            return self._last[2]
        found = self._read(offsets) if len(offsets) else {}
        self._last = each, len(offsets), found
        return found

    def _read(self, offsets: np.ndarray[Any, Any]) -> Mapping[str, np.ndarray[Any, Any]]:
        wanted = list(dict.fromkeys([*self._columns, self._offset]))
        parts = [self._keyed(batch) for batch in self._scan(wanted, offsets)]
        names = [f"k{at}" for at in range(len(self._columns))]
        whole = pa.concat_tables(parts).combine_chunks()
        groups = whole.group_by(names, use_threads=False).aggregate([(OFFSET, "list")])
        values = [groups[name].to_pylist() for name in names]
        found: dict[str, list[np.ndarray[Any, Any]]] = {}
        for at, some in enumerate(groups[f"{OFFSET}_list"]):
            texts = [
                (column, self._text(column, value[at]))
                for column, value in zip(self._columns, values, strict=True)
            ]
            its = some.values.to_numpy(zero_copy_only=False)
            found.setdefault(partition_folder(texts), []).append(its)
        return {folder: np.sort(np.concatenate(some)) for folder, some in sorted(found.items())}

    def _keyed(self, batch: pa.RecordBatch) -> pa.Table:
        columns = {
            f"k{at}": batch.column(name).cast(self._types[name])
            for at, name in enumerate(self._columns)
        }
        columns[OFFSET] = batch.column(self._offset).cast(pa.int64())
        return pa.table(columns)

    def _text(self, column: str, value: Any) -> str:
        try:
            return text_of(value, kind_of(self._types[column]))
        except UnsupportedColumn as error:
            raise BadInput(
                "UnusablePartitionValue",
                f"partition column {column[:100]!r}: {error.message}",
                column=column[:100],
            ) from None


def publish(
    dataset: Dataset,
    store: KeyedStore,
    publication: Publication,
    records: KeyedRecords,
    *,
    clock: Clock = system_clock,
    force: bool = False,
    kept: KeyedStore | None = None,
    scratch: Path | None = None,
) -> Published:
    """Bring the published dataset to the head. `kept` stores what is learned of slices and rows for
    the next refresh; temporary files are made in a new folder in `scratch`.

    Raises:
        UnusablePublication: a column is missing or cannot be indexed. UnusableKey.
        PublicationConflict: another writer wrote the state file, and `force` is off.
        SwapLost: another run was first; nothing of this one is visible.
        ObjectDamaged, ObjectHealing: a slice is not whole.
    """
    checked_uuid(publication.uuid)
    chain = chain_view(dataset)
    publication.check(chain.schema)
    record = records.read()
    now = clock()
    stands = _standing_now(store, publication, records, record, force=force)
    head = chain.head.hash
    was = stands.written
    if was is not None and (was.head, was.config) == (str(head), publication.fingerprint()):
        _collect(store, publication, records, was, now)
        return _report(was, changed=False)
    with (
        scanning(view_of_dataset(dataset, head)) as scan,
        tempfile.TemporaryDirectory(prefix="publish-", dir=scratch) as folder,
    ):
        values = None if kept is None else SliceValues(kept)
        data = PartColumns(scan, chain.schema, values, _split(scan, chain, publication))
        plan = _Plan(dataset, store, publication, chain, stands, data, kept, now, Path(folder))
        changes, written = plan.made()
        records.write(Record(last=record.last, begun=(*record.begun, written)))
        there = stands.files.get(changes.state_key)
        write_changes(store, changes, expected=None if there is None else there.tag)
        others = [key for key in stands.files if key != changes.state_key]
        if others:
            store.delete(others)
    _collect(store, publication, records, written, now)
    return _report(written, unmatched=plan.unmatched)


def _standing_now(
    store: KeyedStore,
    publication: Publication,
    records: KeyedRecords,
    record: Record,
    *,
    force: bool,
) -> IndexStanding:
    """As `standing`, but raise `SwapLost` if another run of this node has swapped the state file
    since the record was read: such a run has changed the record first."""
    try:
        return standing(store, publication.uuid, record, force=force)
    except PublicationConflict:
        if records.read() != record:
            raise SwapLost(publication.uuid) from None
        raise


def withdraw(
    store: KeyedStore, publication: Publication, records: KeyedRecords, *, force: bool = False
) -> None:
    """Delete the published dataset, its state file first.

    Raises:
        PublicationConflict: another writer wrote the state file, and `force` is off.
        SwapLost: another run swapped meanwhile; nothing was deleted.
    """
    stands = _standing_now(store, publication, records, records.read(), force=force)
    store.delete(list(stands.files))
    store.delete([info.key for info in store.list(publication.uuid)])
    records.remove()


class _Plan:
    """Everything that a refresh writes, computed before anything is written."""

    def __init__(
        self,
        dataset: Dataset,
        store: KeyedStore,
        publication: Publication,
        chain: ChainView,
        stands: IndexStanding,
        data: PartColumns,
        kept: KeyedStore | None,
        now: Instant,
        folder: Path,
    ) -> None:
        self._dataset, self._data_of, self._folder = dataset, data, folder
        self._kept = kept
        self._publication, self._chain, self._stands, self._now = publication, chain, stands, now
        self._uuid = publication.uuid
        self._schema = table_schema(chain.schema, publication.partition_on)
        self._raw_schema = encode_schema(self._schema)
        self.unmatched = 0
        slices = chain.slices
        if not publication.has_data:
            slices = tuple(replace(each, is_current=True) for each in slices)
        self._parts = planned_parts(
            slices,
            self._live(),
            self._there(),
            uuid=self._uuid,
            publishing=chain.head.sequence_number,
            taken=stands.taken,
            mark=chain.head.hash.digest.hex()[:8],
            split=data.split,
        )
        self.built: BuiltIndices = built_indices(store, data, publication, self._parts, stands)

    def made(self) -> tuple[TableChanges, WrittenFile]:
        """Return the files to write, and the entry for the record."""
        keys = {part.label: data_key(self._uuid, part.label) for part in self._parts}
        created = self._now.to_datetime()
        new = {name: index_key(self._uuid, name, created) for name in self.built.files}
        state = State(
            uuid=self._uuid,
            partitions={label: {TABLE: key} for label, key in keys.items()},
            partition_keys=self._publication.partition_on,
            indices=dict(sorted(new.items())),
            metadata=self._annotations(),
        )
        is_json = self._publication.state_format is StateFormat.JSON
        raw = encode_json(state) if is_json else encode_msgpack(state)
        changes = TableChanges(
            state_key=state_keys(self._uuid)[0 if is_json else 1],
            state=raw,
            links=self._links(keys),
            data=self._data(keys),
            schema=self._schema_file(),
            indices={key: self.built.files[name] for name, key in new.items()},
        )
        return changes, self._written(raw, changes, {*keys.values(), *new.values()})

    def _written(self, raw: bytes, changes: TableChanges, needed: set[str]) -> WrittenFile:
        its_schema = schema_key(self._uuid, TABLE)
        dropped = {
            key: since or self._now.ns
            for key, since in self._stands.left.items()
            if key not in needed and key != its_schema and key.startswith(f"{self._uuid}/")
        }
        return WrittenFile(
            state_hash=content_hash(raw),
            head=str(self._chain.head.hash),
            config=self._publication.fingerprint(),
            schema_hash=content_hash(self._raw_schema),
            rows={part.label: part.rows for part in self._parts},
            sizes=self.built.sizes,
            skipped=self.built.skipped,
            keys=changes.keys(),
            dropped=dropped,
        )

    def _live(self) -> np.ndarray[Any, Any] | None:
        if self._publication.mode is Mode.CHANGELOG:
            return None
        live, self.unmatched = standing_rows(
            self._data_of.scan, self._chain, self._publication.primary_key, self._kept
        )
        return live

    def _there(self) -> Mapping[str, int]:
        """Return the partitions that were made from slices of this history in this schema."""
        was = self._stands.written
        if was is None or was.schema_hash != content_hash(self._raw_schema):
            return {}
        return was.rows if Multihash.parse(was.head) in self._chain.path else {}

    def _links(self, keys: Mapping[str, str]) -> dict[str, Any]:
        if not self._publication.has_data:
            return {}
        return {
            keys[part.label]: self._dataset.link_source(
                ObjectKind.DATA, part.source.data.physical_hash
            )
            for part in self._parts
            if part.source is not None and part.is_whole and not part.is_there
        }

    def _data(self, keys: Mapping[str, str]) -> dict[str, Any]:
        if not self._publication.has_data:
            return {}
        rewritten = [part for part in self._parts if not part.is_whole and not part.is_there]
        return {
            keys[part.label]: self._rewritten(part, self._folder / f"{number}.parquet")
            for number, part in enumerate(rewritten)
        }

    def _rewritten(self, part: Part, path: Path) -> Any:
        keys = self._publication.partition_on
        schema = pa.schema([field for field in self._schema if field.name not in keys])
        written_part(self._data_of, part, schema, path)
        return lambda: chunks_of(path)

    def _schema_file(self) -> dict[str, bytes]:
        was = self._stands.written
        if was is not None and was.schema_hash == content_hash(self._raw_schema):
            return {}
        return {schema_key(self._uuid, TABLE): self._raw_schema}

    def _annotations(self) -> dict[str, str]:
        """Return the metadata by which a reader can compare the publication with the chain."""
        head, chain = self._chain.head, self._chain
        key = self._publication.primary_key
        old = {} if self._stands.state is None else self._stands.state.metadata
        now = self._now.to_datetime().replace(tzinfo=None).isoformat()
        said = {
            CREATION_TIME: str(old.get(CREATION_TIME, now)),
            "odf.dataset-id": str(self._dataset.id),
            "odf.head": str(head.hash),
            "odf.sequence-number": str(head.sequence_number),
            "odf.last-offset": None if chain.last_offset is None else str(chain.last_offset),
            "odf.system-time": str(head.block.system_time),
            "odf.watermark": chain.watermark,
            "odf.mode": str(self._publication.mode),
            "odf.primary-key": None if key is None else json.dumps(list(key)),
        }
        return {name: text for name, text in said.items() if text is not None}


def _split(scan: Scan, chain: ChainView, publication: Publication) -> Split | None:
    if not publication.partition_on:
        return None
    offset = chain.vocab.offset_column
    return PartitionRows(scan, chain.schema, publication.partition_on, offset).split


def _collect(
    store: KeyedStore,
    publication: Publication,
    records: KeyedRecords,
    written: WrittenFile,
    now: Instant,
) -> None:
    """Delete dropped files after the grace time, and record `written` as the last state."""
    grace = int(publication.grace.total_seconds() * 1e9)
    gone = [key for key, since in written.dropped.items() if since + grace <= now.ns]
    if gone:
        store.delete(gone)
    left = {key: since for key, since in written.dropped.items() if key not in gone}
    records.write(Record(last=replace(written, keys=(), dropped=left)))


def _report(written: WrittenFile, *, unmatched: int = 0, changed: bool = True) -> Published:
    return Published(
        head=written.head,
        partitions=len(written.rows),
        rows=sum(written.rows.values()),
        indices=written.sizes,
        skipped=written.skipped,
        unmatched_retractions=unmatched,
        changed=changed,
    )
