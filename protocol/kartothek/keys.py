"""Keys of the files of a dataset, and the partition columns that keys of data files carry.

A key is text with slashes; percent signs are part of it. Source: Kartothek dataset format 4,
"Store and keys", "Partitions".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote, unquote

from .errors import ForbiddenKey, MalformedPartition, MalformedUuid, NotParquet

JSON_SUFFIX = ".by-dataset-metadata.json"
MSGPACK_SUFFIX = ".by-dataset-metadata.msgpack.zstd"
INDEX_SUFFIX = ".by-dataset-index.parquet"
DATA_SUFFIX = ".parquet"
SCHEMA_NAME = "_common_metadata"
TABLE = "table"
"""Name of the table of a dataset that has one only."""
INDICES = "indices"
MAX_KEY_BYTES = 4096
_UUID = re.compile(r"[A-Za-z0-9+_-]+")
_UNSTORABLE = re.compile(r"[\x00-\x1f\x7f]")


def checked_uuid(uuid: str) -> str:
    """The uuid of a dataset. Raises `MalformedUuid`."""
    if _UUID.fullmatch(uuid) is None:
        raise MalformedUuid(uuid, "a uuid has letters, digits, '+', '_' and '-' only")
    return uuid


def state_keys(uuid: str) -> tuple[str, str]:
    """Keys of the state file as JSON and as MessagePack; JSON wins where both exist."""
    return uuid + JSON_SUFFIX, uuid + MSGPACK_SUFFIX


def schema_key(uuid: str, table: str) -> str:
    return f"{uuid}/{table}/{SCHEMA_NAME}"


def data_key(uuid: str, label: str, table: str = TABLE) -> str:
    """Key of a data file. The label is what follows the table, without the suffix."""
    return f"{uuid}/{table}/{label}{DATA_SUFFIX}"


def index_key(uuid: str, column: str, created: datetime) -> str:
    """Key of an index file; `created` is UTC, written without its zone."""
    time = encoded(created.replace(tzinfo=None).isoformat(timespec="microseconds"))
    return f"{uuid}/{INDICES}/{encoded(column)}/{time}{INDEX_SUFFIX}"


def partition_folder(values: Sequence[tuple[str, str]]) -> str:
    """`col=val/…/`, both percent-encoded, or the empty text."""
    return "".join(f"{encoded(column)}={encoded(text)}/" for column, text in values)


def encoded(text: str) -> str:
    """Percent-encoded UTF-8; letters, digits and `-._~` stay, the slash does not."""
    return quote(text, safe="")


def checked_key(key: str, named_by: str) -> str:
    """A key that some file names. Raises `ForbiddenKey`, which says what named it."""
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
    """The key of a Parquet data file. Raises `ForbiddenKey`, `NotParquet`."""
    checked_key(key, named_by)
    if not key.endswith(DATA_SUFFIX) or key.endswith("/" + DATA_SUFFIX):
        raise NotParquet(key, f"data files are read as Parquet only, named …{DATA_SUFFIX}")
    return key


def partition_texts(key: str) -> list[tuple[str, str]]:
    """Partition columns of a data file, in order, with the texts of their values.

    A first component is the dataset, a second the table, a last the file. Bytes that are no
    UTF-8 are kept as surrogates. Raises `MalformedPartition`: a column stands there twice.
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
