"""Publish a frame: as a new dataset of a node, or as additional rows of an existing one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast
from urllib.parse import unquote, urlsplit

from odf_node.protocol.codec.manifests import to_data
from odf_node.protocol.errors import BadInput
from odf_node.protocol.multihash import Multihash

from ..client.folder import chunks_of
from ..client.http import open_http
from ..client.node_api import REPLAYED, NodeApi, NothingThere, RequestConflict
from ..client.urls import UnsupportedUrl
from .place import Place, place_of

if TYPE_CHECKING:
    import pyarrow as pa

MergeName = Literal["append", "ledger", "snapshot", "upsert"]
_MERGES: Mapping[str, str] = {
    "append": "Append",
    "ledger": "Ledger",
    "snapshot": "Snapshot",
    "upsert": "UpsertStream",
}
MEDIA_TYPE = "application/vnd.apache.parquet"
IN_MEMORY_BYTES = 64 << 20
"""Larger files are written to disk before they are sent."""


class NotATable(BadInput):
    """Data without rows and columns."""


class UnusableMerge(BadInput):
    """A key with a strategy that has none, or the other way round; or a missing column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The node's report about posted rows."""

    outcome: str
    block: str | None
    """Head of the dataset afterwards."""
    rows_read: int
    rows_added: int
    rows_known: int
    """Rows that the dataset had already."""
    rows_corrected: int
    rows_retracted: int
    warnings: tuple[str, ...]
    replayed: bool
    """Whether the node had this request before: the rows entered then, and not a second time."""
    answer: Mapping[str, Any]
    """The complete response of the node."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Receipt:
        return cls(
            outcome=str(answer.get("outcome", "")),
            block=answer.get("head"),
            rows_read=int(answer.get("rowsRead", 0)),
            rows_added=int(answer.get("rowsAdded", 0)),
            rows_known=int(answer.get("rowsKnown", 0)),
            rows_corrected=int(answer.get("rowsCorrected", 0)),
            rows_retracted=int(answer.get("rowsRetracted", 0)),
            warnings=tuple(answer.get("warnings", ())),
            replayed=bool(answer.get(REPLAYED, False)),
            answer=answer,
        )


def publish(
    data: Any,
    url: str,
    *,
    key: Sequence[str] = (),
    merge: MergeName | None = None,
    event_time: str | None = None,
    description: str | None = None,
    visibility: Literal["private", "public"] = "private",
    token: str | None = None,
    expected_head: str | None = None,
    idempotency_key: str | None = None,
) -> Receipt:
    """Post the rows of a frame to the dataset at `url`, which is created if it does not exist.

    Args:
        data: a pandas or Polars frame, a DuckDB relation, an Arrow table, batch or stream, a list
            of dicts, or a dict of columns. A pandas index is included if it has a name.
        url: `http(s)://node/[account/]name`.
        key: columns that identify a row; used if the dataset is created.
        merge: `append`: all rows are new; `ledger`: rows with a new key are added; `upsert`: they
            are added or correct the row of their key; `snapshot`: the frame is the whole state,
            rows that it lacks are retracted. By default `upsert` with a key, else `append`. Used
            if the dataset is created.
        event_time: the column with the time at which each row happened; used if the dataset is
            created.
        expected_head: block that the dataset must have as its head, else `RequestConflict`.
        idempotency_key: name of this call. A second call with the same name changes nothing, and
            its receipt says `replayed`. By default the hash of the rows and the head at the
            beginning of the call (or `expected_head`): a repeat before the rows have entered is
            recognized, and the same rows after another change are another change.

    While the connection breaks or a proxy answers 502, 503 or 504, the rows are sent again under
    the same name.

    Raises:
        NotATable, UnusableMerge. Refused: the token does not allow it.
        BadInput: the node rejects the rows, with the reason. TransferFailed.
    """
    table = table_of(data)
    place = place_of(url, token)
    if not place.is_served:
        raise UnsupportedUrl(f"rows are posted to a node, http(s)://…, not to {url!r}", url=url)
    manifest = _manifest(place, table, key, merge, event_time, description)
    with open_http() as http, _parquet(table) as file:
        digest, size = Multihash.of_chunks(chunks_of(file)), file.tell()
        head = _ensured_head(place, manifest, visibility, http)

        def sent() -> Iterator[bytes]:
            file.seek(0)
            return chunks_of(file)

        answer = NodeApi(place.location.base, place.token, http=http).ingest(
            sent,
            media_type=MEDIA_TYPE,
            size=size,
            expected_head=expected_head,
            key=idempotency_key or f"rows-{digest}-{expected_head or head}",
        )
    return Receipt.of(answer)


def table_of(data: Any) -> pa.Table:
    """Convert any frame to an Arrow table. Raises `NotATable`."""
    import pyarrow as pa

    try:
        if type(data).__module__.partition(".")[0] == "pandas":
            named = any(name is not None for name in data.index.names)
            return pa.Table.from_pandas(data, preserve_index=named).replace_schema_metadata(None)
        if isinstance(data, list):
            return pa.Table.from_pylist(data)
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as broken:
        raise NotATable(
            f"a {type(data).__name__} cannot be read as a table: {str(broken)[:200]}"
        ) from broken


def _manifest(
    place: Place,
    table: pa.Table,
    key: Sequence[str],
    merge: MergeName | None,
    event_time: str | None,
    description: str | None,
) -> dict[str, Any]:
    """Return the manifest of the dataset to be created. Raises `UnusableMerge`."""
    from odf_node.protocol.arrow_schema import from_arrow

    for name in (*key, *([] if event_time is None else [event_time])):
        if name not in table.column_names:
            raise UnusableMerge(f"the rows have no column {name[:100]!r}", column=name[:100])
    chosen = merge or ("upsert" if key else "append")
    if chosen not in _MERGES:
        raise UnusableMerge(f"merge is one of {', '.join(_MERGES)}, not {str(merge)[:50]!r}")
    if bool(key) != (chosen != "append"):
        raise UnusableMerge(f"{chosen} {'has no' if key else 'needs a'} key")
    strategy: dict[str, Any] = {"kind": _MERGES[chosen]}
    if key:
        strategy["primaryKey"] = list(key)
    read = {"kind": "Parquet", "schema": to_data(from_arrow(table.schema))}
    source = {"kind": "AddPushSource", "sourceName": "default", "read": read, "merge": strategy}
    metadata: list[dict[str, Any]] = [source]
    if event_time is not None:
        metadata.append({"kind": "SetVocab", "eventTimeColumn": event_time})
    if description is not None:
        metadata.append({"kind": "SetInfo", "description": description})
    content = {"name": _alias(place), "kind": "Root", "metadata": metadata}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def _alias(place: Place) -> str:
    """Return `[account/]name`, the path of the URL. Raises `UnsupportedUrl`."""
    path = unquote(urlsplit(place.location.base).path).strip("/")
    if not path or path.count("/") > 1:
        raise UnsupportedUrl(
            f"name a dataset, http(s)://node/[account/]name, not {place.location.base}",
            url=place.location.base,
        )
    return path


def _ensured_head(place: Place, manifest: dict[str, Any], visibility: str, http: Any) -> str:
    """Create the dataset unless it exists. Return its head."""
    base = place.location.base
    dataset = NodeApi(base, place.token, http=http)
    try:
        return str(dataset.dataset()["head"])
    except NothingThere:
        node = base[: len(base) - len(urlsplit(base).path)] + "/"
    with suppress(RequestConflict):  # another client created it between the two calls
        NodeApi(node, place.token, http=http).create_dataset(
            json.dumps(manifest).encode(), visibility=visibility
        )
    return str(dataset.dataset()["head"])


@contextmanager
def _parquet(table: pa.Table) -> Iterator[BinaryIO]:
    """Write the rows to a Parquet file, and yield it at its beginning."""
    import pyarrow.parquet as pq

    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as file:
        pq.write_table(table, file, compression="zstd")
        file.seek(0)
        yield cast("BinaryIO", file)
