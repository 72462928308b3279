"""The state file of a dataset, which lists its files. Replacing the state file is a commit.

It is JSON, or the same as MessagePack in a zstd frame. The input is untrusted: sizes are limited,
and the types of everything that is used later are checked here.
Source: Kartothek dataset format 4, "State file".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec
import pyarrow as pa

from .keys import BadKartothek, checked_data_key, checked_key, checked_uuid

VERSION = 4
MAX_STATE_BYTES = 256 << 20
"""Limit in bytes of an uncompressed state file."""
CREATION_TIME = "creation_time"

Labels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of a state file. Keys are validated; labels have no meaning."""

    uuid: str
    partitions: Mapping[str, Mapping[str, str]] | None = field(default_factory=dict)
    """Label → table → key of the file. None: the files have to be found by listing."""
    partition_keys: tuple[str, ...] | None = ()
    """Partition columns in order. None: taken from the first file key."""
    indices: Mapping[str, str | Labels] = field(default_factory=dict)
    """Column → key of its index file, or the embedded index, by the text of each value."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def tables(self) -> tuple[str, ...]:
        """Return the sorted table names, which all partitions share; empty without partitions."""
        first = next(iter((self.partitions or {}).values()), {})
        return tuple(sorted(first))


def encode_json(state: State) -> bytes:
    """Return JSON in one line, in the field order of the Kartothek library."""
    return json.dumps(_document(state)).encode()


def encode_msgpack(state: State) -> bytes:
    """Return one zstd frame with the size of its content, without a checksum."""
    raw = msgspec.msgpack.encode(_document(state))
    packed: bytes = pa.Codec("zstd").compress(raw, asbytes=True)
    return packed


def _document(state: State) -> dict[str, Any]:
    document: dict[str, Any] = {
        "dataset_metadata_version": VERSION,
        "dataset_uuid": state.uuid,
        "indices": dict(state.indices),
        "metadata": dict(state.metadata),
        "partitions": None
        if state.partitions is None
        else {label: {"files": dict(files)} for label, files in state.partitions.items()},
        "partition_keys": None if state.partition_keys is None else list(state.partition_keys),
    }
    absent = {name for name in ("indices", "metadata") if not document[name]}
    absent |= {name for name, value in document.items() if value is None}
    return {name: value for name, value in document.items() if name not in absent}


def decode_json(raw: bytes, *, key: str, uuid: str) -> State:
    """Return the state of dataset `uuid` from its file. `MalformedState`, `ForbiddenKey`, …"""
    _check_size(len(raw), key)
    try:
        found = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise BadKartothek("MalformedState", key, f"no JSON: {str(error)[:200]}") from None
    return _Reader(key).state(found, uuid)


def decode_msgpack(raw: bytes, *, key: str, uuid: str) -> State:
    """As `decode_json`, from MessagePack in zstd."""
    _check_size(len(raw), key)
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
            unpacked = stream.read(MAX_STATE_BYTES + 1)
    except (pa.ArrowException, OSError) as error:
        raise BadKartothek("MalformedState", key, f"no zstd frame: {str(error)[:200]}") from None
    _check_size(len(unpacked), key)
    try:
        found = msgspec.msgpack.decode(unpacked)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise BadKartothek("MalformedState", key, f"no MessagePack: {str(error)[:200]}") from None
    return _Reader(key).state(found, uuid)


def _check_size(size: int, key: str) -> None:
    if size > MAX_STATE_BYTES:
        raise BadKartothek("MalformedState", key, f"larger than {MAX_STATE_BYTES} bytes")


class _Reader:
    """Checks a document; every check gets a description of the part for its error message."""

    def __init__(self, key: str) -> None:
        self._key = key

    def state(self, found: Any, uuid: str) -> State:
        document = self._map(found, "the state")
        version = document.get("dataset_metadata_version")
        if type(version) is not int or version != VERSION:
            shown = repr(version)[:50]
            self._refuse(f"dataset_metadata_version is {shown}; only the integer {VERSION} is read")
        said = self._text(document.get("dataset_uuid"), "dataset_uuid")
        if said != uuid:
            self._refuse(f"dataset_uuid is {said[:100]!r}, the file is named by {uuid[:100]!r}")
        keys = document.get("partition_keys")
        partitions = document.get("partitions")
        return State(
            uuid=checked_uuid(uuid),
            partitions=None if partitions is None else self._partitions(partitions),
            partition_keys=None if keys is None else self._texts(keys, "partition_keys"),
            indices=self._indices(self._optional(document, "indices")),
            metadata=self._optional(document, "metadata"),
        )

    def _partitions(self, found: Any) -> dict[str, dict[str, str]]:
        partitions: dict[str, dict[str, str]] = {}
        tables: set[str] | None = None
        for label, entry in self._map(found, "partitions").items():
            named = f"partition {label[:100]!r}"
            files = self._map(self._map(entry, named).get("files"), f"{named}: files")
            if not files:
                self._refuse(f"{named} has no files")
            tables = tables or set(files)
            if tables != set(files):
                self._refuse(f"{named} has the tables {sorted(files)}, others {sorted(tables)}")
            partitions[label] = {
                table: checked_data_key(self._text(file, f"{named}: a file"), self._key)
                for table, file in files.items()
            }
        return partitions

    def _optional(self, document: dict[str, Any], name: str) -> dict[str, Any]:
        found = document.get(name)
        return {} if found is None else self._map(found, name)

    def _indices(self, found: dict[str, Any]) -> dict[str, str | Labels]:
        indices: dict[str, str | Labels] = {}
        for column, place in found.items():
            named = f"the index of {column[:100]!r}"
            if isinstance(place, Mapping):
                embedded = self._map(place, named)
                indices[column] = {
                    text: self._texts(labels, named) for text, labels in embedded.items()
                }
            else:
                indices[column] = checked_key(self._text(place, named), self._key)
        return indices

    def _map(self, found: Any, named: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            self._refuse(f"{named} is no map")
        return {self._text(name, f"a name in {named}"): value for name, value in found.items()}

    def _texts(self, found: Any, named: str) -> tuple[str, ...]:
        if not isinstance(found, list):
            self._refuse(f"{named} is no list")
        return tuple(self._text(each, f"an entry of {named}") for each in found)

    def _text(self, found: Any, named: str) -> str:
        if not isinstance(found, str):
            self._refuse(f"{named} is no text")
        try:
            found.encode()
        except UnicodeEncodeError:
            self._refuse(f"{named} is no Unicode text")
        return found

    def _refuse(self, reason: str) -> NoReturn:
        raise BadKartothek("MalformedState", self._key, reason)
