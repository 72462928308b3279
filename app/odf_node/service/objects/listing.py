"""Lists of the slices of a dataset, in the format in which S3 lists the objects of a bucket.

A list has the slices of the chain at its head; it omits other objects in the store. Source: Amazon
S3 API reference, "ListObjectsV2".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape

from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant
from odf_storage.datasets.node.stores import Stores

from ..auth.access import Action
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..http.addresses import BUCKET, Route, path_of
from ..read.outlines import Outlines

MOST_KEYS = 1_000
"""Limit of keys in one page, as in S3."""
MAX_CHARS = 1_024
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object of a list; `name` is the hash of the slice."""

    key: str
    name: str
    size: int
    made: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The parameters of a list request."""

    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    most: int = MOST_KEYS
    is_encoded: bool = False

    @classmethod
    def of(cls, query: str) -> Listing:
        """Parse a query string. Raises `MalformedListing`."""
        told = dict(parse_qsl(query, keep_blank_values=True))
        if any(len(value) > MAX_CHARS for value in told.values()):
            raise BadInput("MalformedListing", f"a parameter is longer than {MAX_CHARS} characters")
        most = told.get("max-keys", str(MOST_KEYS))
        if not (most.isascii() and most.isdigit() and len(most) < 10):
            raise BadInput("MalformedListing", "max-keys is no number")
        return cls(
            prefix=told.get("prefix", ""),
            delimiter=told.get("delimiter", ""),
            after=max(told.get("start-after", ""), told.get("continuation-token", "")),
            most=min(int(most), MOST_KEYS),
            is_encoded=told.get("encoding-type") == "url",
        )


def listed_xml(bucket: str, asked: Listing, objects: Sequence[ListedObject]) -> str:
    """Return the response as XML. `objects` must be sorted by key, ascending."""
    entries: list[str] = []
    folders: dict[str, None] = {}
    last, is_cut = "", False
    for each in objects[bisect_right(objects, asked.after, key=lambda one: one.key) :]:
        if not each.key.startswith(asked.prefix):
            continue
        head, cut, _ = each.key[len(asked.prefix) :].partition(asked.delimiter or "\0")
        folder = asked.prefix + head + cut if cut else None
        if folder is not None and (folder in folders or asked.after.startswith(folder)):
            last = each.key
            continue
        if len(entries) + len(folders) == asked.most:
            is_cut = True
            break
        if folder is None:
            entries.append(_contents(each, asked))
        else:
            folders[folder] = None
        last = each.key
    told = "".join(f"<{name}>{text}</{name}>" for name, text in _head(bucket, asked))
    count = len(entries) + len(folders)
    told += f"<KeyCount>{count}</KeyCount><IsTruncated>{str(is_cut).lower()}</IsTruncated>"
    if is_cut:
        told += f"<NextContinuationToken>{escape(last)}</NextContinuationToken>"
    told += "".join(entries)
    for folder in folders:
        told += f"<CommonPrefixes><Prefix>{_text(folder, asked)}</Prefix></CommonPrefixes>"
    head_line = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f'{head_line}<ListBucketResult xmlns="{_NAMESPACE}">{told}</ListBucketResult>'


def _head(bucket: str, asked: Listing) -> Iterator[tuple[str, str]]:
    yield "Name", escape(bucket)
    yield "Prefix", _text(asked.prefix, asked)
    yield "MaxKeys", str(asked.most)
    if asked.delimiter:
        yield "Delimiter", _text(asked.delimiter, asked)
    if asked.is_encoded:
        yield "EncodingType", "url"


def _contents(each: ListedObject, asked: Listing) -> str:
    time = Instant(each.made.ns // 1_000_000 * 1_000_000)
    return (
        f"<Contents><Key>{_text(each.key, asked)}</Key><LastModified>{time}</LastModified>"
        f"<ETag>&quot;{each.name}&quot;</ETag><Size>{each.size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def _text(text: str, asked: Listing) -> str:
    return escape(quote(text) if asked.is_encoded else text)


@dataclass(frozen=True)
class Listings:
    """The ASGI application at the addresses of buckets."""

    stores: Stores
    access: DatasetAccess
    outlines: Outlines

    def routes(self) -> Iterator[Route]:
        """Return the entry of the routing table."""
        yield Route(BUCKET, self.read, ("GET",), takes_s3=True)

    async def read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with the list of a dataset's objects, filtered by the prefix."""
        path, actor = path_of(scope), _actor(scope)
        asked = Listing.of(scope["query_string"].decode("latin-1"))
        text = await to_thread.run_sync(self._listed, actor, path.account, path.dataset, asked)
        await Response(text, media_type="application/xml")(scope, receive, send)

    def _listed(self, actor: Actor, account: str | None, dataset: str, asked: Listing) -> str:
        """Raises the same errors as `DatasetAccess.resolve`."""
        entry = self.access.resolve(actor, account, dataset, Action.READ)
        outline, _ = self.outlines.of(self.stores.dataset(DatasetRef(id=entry.id)), indexed=False)
        folder = "data/" if account is None else f"{dataset}/data/"
        found = {
            str(data.physical_hash): ListedObject(
                f"{folder}{data.physical_hash}", str(data.physical_hash), data.size, made
            )
            for data, made in outline.slices
        }
        return listed_xml(account or dataset, asked, [found[name] for name in sorted(found)])


def _actor(scope: Scope) -> Actor:
    actor: Actor = scope["state"]["actor"]
    return actor
