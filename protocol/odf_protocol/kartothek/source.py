"""A Kartothek table as a polled source: its address, its file list, its allowed options.

Source: Kartothek dataset format 4, "Ingest".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from ..errors import BadInput
from ..metadata.attributes import canonical_json
from ..metadata.events import SetPollingSource
from ..metadata.sources import (
    EventTimeSourceFromPath,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    ReadStepParquet,
)
from .keys import TABLE, ForbiddenKey, MalformedUuid, checked_key, checked_uuid, schema_key

PREFIX = "kartothek+"
SCHEMES = tuple(PREFIX + store for store in ("file", "s3", "s3+http", "s3+https", "http", "https"))
STATE_PREFIX = "kartothek/1:"
"""Prefix of the source state, before the digest of the file list."""


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """`store` is the URL of a keyed store without a slash at its end; `table` is None for the only
    table of a dataset."""

    store: str
    uuid: str
    table: str | None

    @property
    def scheme(self) -> str:
        return self.store.partition("://")[0]


def parse_address(url: str) -> SourceAddress:
    """Parse `kartothek+<scheme>://…/<uuid>[?table=<name>]`.

    Raises:
        MalformedAddress: another form, or other parameters.
    """
    scheme, _, rest = url.partition("://")
    try:
        parts = urlsplit(f"//{rest}")
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _malformed() from None
    folder, _, last = parts.path.rpartition("/")
    names = [name for name, _ in given]
    if scheme.lower() not in SCHEMES or not last or parts.fragment or names not in ([], ["table"]):
        raise _malformed()
    uuid = unquote(last)
    table = given[0][1] if given else None
    try:
        checked_key(
            schema_key(checked_uuid(uuid), TABLE if table is None else table), "the address"
        )
    except (MalformedUuid, ForbiddenKey):
        raise _malformed() from None
    if table is not None and (not table or "/" in table):
        raise _malformed()
    return SourceAddress(
        f"{scheme.lower().removeprefix(PREFIX)}://{parts.netloc}{folder}", uuid, table
    )


def _malformed() -> BadInput:
    return BadInput(
        "MalformedAddress",
        "a Kartothek dataset is at kartothek+file:///folder/uuid, kartothek+s3://bucket/uuid or "
        "kartothek+https://host/path/uuid, with ?table=name where it has several tables; a uuid "
        "has letters, digits, '+', '_' and '-' only",
    )


def is_address(url: str) -> bool:
    """Return whether an address has the prefix of Kartothek datasets."""
    return url[: len(PREFIX)].lower() == PREFIX


def check_source(source: SetPollingSource) -> None:
    """Check that a source can be polled from a Kartothek table. Raises `UnfitSource`."""
    if isinstance(source.merge, MergeStrategyAppend | MergeStrategyChangelogStream):
        raise BadInput(
            "UnfitSource",
            "a Kartothek source is read again whenever its files change, so its merge strategy "
            "needs a key: use Ledger or Snapshot",
            merge=type(source.merge).__name__.removeprefix("MergeStrategy"),
        )
    if source.prepare:
        raise BadInput(
            "UnfitSource", "the files of a Kartothek source are read as they are: it has no prepare"
        )
    if not isinstance(source.read, ReadStepParquet):
        raise BadInput(
            "UnfitSource", "the files of a Kartothek source are Parquet: its read step is Parquet"
        )
    if isinstance(getattr(source.fetch, "event_time", None), EventTimeSourceFromPath):
        raise BadInput(
            "UnfitSource",
            "the path of a Kartothek source holds no event time: use FromMetadata or "
            "FromSystemTime",
        )


def file_list(
    table: str,
    partition_keys: Sequence[str],
    files: Iterable[tuple[str, str]],
    schema: pa.Schema,
) -> str:
    """Return everything that determines the rows of a table, as canonical JSON. `files` are pairs
    of label and key. Raises `MalformedAttributes` for a name that is not Unicode text."""
    columns = [[field.name, str(field.type)] for field in schema]
    pairs = [list(pair) for pair in sorted(files)]
    return canonical_json([table, list(partition_keys), pairs, columns])


def state_of(listed: str) -> str:
    """Return the value of the source state for a file list."""
    return STATE_PREFIX + hashlib.sha3_256(listed.encode()).hexdigest()
