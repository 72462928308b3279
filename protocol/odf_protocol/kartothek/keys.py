"""Keys of the files of a dataset, and the partition columns in keys of data files.

A key is text with slashes; percent signs have no special meaning. Source: Kartothek dataset
format 4, "Store and keys", "Partitions".

Faults of a Kartothek dataset. Each error names the key of the file and the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import overload
from urllib.parse import quote, unquote

from ..errors import BadInput, NotFound


class BadKartothek(BadInput):
    """A file of a dataset is not what the format says it must be."""

    @overload
    def __init__(self, key: str, reason: str, /) -> None: ...
    @overload
    def __init__(self, code: str, key: str, reason: str, /) -> None: ...
    def __init__(self, *words: str) -> None:
        *code, self.key, self.reason = words
        key, reason = self.key[:300], self.reason
        name = code[0] if code else type(self).__name__
        super().__init__(name, f"{key}: {reason}", key=key, reason=reason)


class MalformedUuid(BadKartothek):
    """A dataset uuid is empty or has other characters than `A-Z a-z 0-9 + _ -`."""


class MalformedIndex(BadKartothek):
    """An index file cannot be used; readers then ignore the index."""


class ForbiddenKey(BadKartothek):
    """A key leads out of the store, or is one that no store can have."""


class MalformedPartition(BadKartothek):
    """The partition columns in a file key differ from those of other keys, or have no value."""


class MalformedPredicate(BadInput):
    """A predicate has an unknown column, or a value that the column cannot have."""


class UnsupportedColumn(BadInput):
    """A Kartothek dataset, index or partition cannot have a column of this type."""


class KartothekFileMissing(NotFound):
    """A file that the dataset needs is not in the store."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key[:300]}: {reason}", key=key[:300], reason=reason)
        self.key = key


class NoKartothek(NotFound):
    """The store has no dataset of this uuid."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"the store has no Kartothek dataset {uuid[:300]!r}", uuid=uuid[:300])


JSON_SUFFIX = ".by-dataset-metadata.json"
MSGPACK_SUFFIX = ".by-dataset-metadata.msgpack.zstd"
INDEX_SUFFIX = ".by-dataset-index.parquet"
DATA_SUFFIX = ".parquet"
SCHEMA_NAME = "_common_metadata"
TABLE = "table"
"""Table name in a dataset that has only one table."""
INDICES = "indices"
MAX_KEY_BYTES = 4096
_UUID = re.compile(r"[A-Za-z0-9+_-]+")
_UNSTORABLE = re.compile(r"[\x00-\x1f\x7f]")


def checked_uuid(uuid: str) -> str:
    """Return the uuid if it is valid. Raises `MalformedUuid`."""
    if _UUID.fullmatch(uuid) is None:
        raise MalformedUuid(uuid, "a uuid has letters, digits, '+', '_' and '-' only")
    return uuid


def state_keys(uuid: str) -> tuple[str, str]:
    """Return the keys of the state file as JSON and as MessagePack; if both exist, JSON is used."""
    return uuid + JSON_SUFFIX, uuid + MSGPACK_SUFFIX


def schema_key(uuid: str, table: str) -> str:
    return f"{uuid}/{table}/{SCHEMA_NAME}"


def data_key(uuid: str, label: str, table: str = TABLE) -> str:
    """Return the key of a data file. The label is the part after the table, without the suffix."""
    return f"{uuid}/{table}/{label}{DATA_SUFFIX}"


def index_key(uuid: str, column: str, created: datetime) -> str:
    """Return the key of an index file; `created` is UTC and written without its zone."""
    time = encoded(created.replace(tzinfo=None).isoformat(timespec="microseconds"))
    return f"{uuid}/{INDICES}/{encoded(column)}/{time}{INDEX_SUFFIX}"


def partition_folder(values: Sequence[tuple[str, str]]) -> str:
    """Return `col=val/…/`, percent-encoded, or the empty text without partition columns."""
    return "".join(f"{encoded(column)}={encoded(text)}/" for column, text in values)


def encoded(text: str) -> str:
    """Percent-encode UTF-8 text, except letters, digits and `-._~`; the slash is encoded."""
    return quote(text, safe="")


def checked_key(key: str, named_by: str) -> str:
    """Return a key found in a file if it is valid. Raises `ForbiddenKey`, which names that file."""
    reason = _forbidden(key)
    if reason is not None:
        raise ForbiddenKey(key, f"{reason} (named by {named_by})")
    return key


def _forbidden(key: str) -> str | None:
    if not key or key.startswith("/"):
        return "a key is a path inside of its store"
    if not {".", ".."}.isdisjoint(key.split("/")):
        return "a key has no '.' and no '..' component"
    if _UNSTORABLE.search(key):
        return "a key has no control characters"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "a key is Unicode text"
    return None if size <= MAX_KEY_BYTES else f"a key has at most {MAX_KEY_BYTES} bytes"


def checked_data_key(key: str, named_by: str) -> str:
    """Return the key of a Parquet data file if valid. Raises `ForbiddenKey`, `NotParquet`."""
    checked_key(key, named_by)
    if not key.endswith(DATA_SUFFIX) or key.endswith("/" + DATA_SUFFIX):
        raise BadKartothek(
            "NotParquet", key, f"data files are read as Parquet only, named …{DATA_SUFFIX}"
        )
    return key


def partition_texts(key: str) -> list[tuple[str, str]]:
    """Return the partition columns of a data file, in order, with the texts of their values.

    The first component of a key is the dataset, the second the table, the last the file. Bytes that
    are not UTF-8 become surrogates. Raises `MalformedPartition` if a column occurs twice.
    """
    found: dict[str, str] = {}
    for component in key.split("/")[2:-1]:
        pieces = component.split("=")
        if len(pieces) == 2:
            column, text = (unquote(piece, errors="surrogateescape") for piece in pieces)
            if column in found:
                raise MalformedPartition(key, f"it names the partition column {column!r} twice")
            found[column] = text
    return list(found.items())
