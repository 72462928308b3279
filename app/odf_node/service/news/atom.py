"""Write feeds of blocks as Atom documents (RFC 4287), in pages (RFC 5005).

Select the blocks of a feed: the newest of a dataset, or the newest heads of all datasets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.reader import Reading
from odf_storage.runtime.clock import Clock
from odf_storage.stores.index.sql import Heads, RefIndex
from odf_storage.stores.objects.layout import HEAD
from odf_storage.stores.ports import BlockIndex
from odf_storage.stores.ports.errors import BlockNotFound
from odf_storage.stores.ports.values import DatasetEntry

from ...client.uses.event_texts import summary
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from .notices import data_of

MEDIA_TYPE = "application/atom+xml; charset=utf-8"
NAMESPACE = "http://www.w3.org/2005/Atom"
NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids, even escaped."""


@dataclass(frozen=True)
class Shown:
    """A block in a feed, with the alias and the URL of its dataset."""

    entry: DatasetEntry
    alias: str
    url: str
    block: HashedBlock


@dataclass(frozen=True)
class Head:
    """The head of a feed: id, title, and the URLs of the feed, its subject and its next page."""

    id: str
    title: str
    url: str
    about: str
    updated: Instant
    next: str | None = None


def feed(head: Head, blocks: Sequence[Shown], *, names_datasets: bool) -> bytes:
    """Return the document; with `names_datasets`, titles begin with the alias."""
    root = Xml.Element("feed", xmlns=NAMESPACE)
    add(root, "id", head.id)
    add(root, "title", head.title)
    add(root, "updated", str(head.updated))
    add(root, "link", rel="self", type=MEDIA_TYPE.partition(";")[0], href=head.url)
    add(root, "link", rel="alternate", href=head.about)
    if head.next is not None:
        add(root, "link", rel="next", href=head.next)
    for shown in blocks:
        _add_entry(root, shown, names_datasets=names_datasets)
    written: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _add_entry(root: Xml.Element, shown: Shown, *, names_datasets: bool) -> None:
    block, entry = shown.block, Xml.SubElement(root, "entry")
    told = summary(block.event)
    time = str(block.block.system_time)
    add(entry, "id", f"urn:odf:{block.hash}")
    add(entry, "title", f"{shown.alias}: {told}" if names_datasets else told)
    add(entry, "updated", time)
    add(entry, "published", time)
    author = Xml.SubElement(entry, "author")
    add(author, "name", str(shown.entry.alias.account or shown.alias))
    add(entry, "link", rel="alternate", href=f"{shown.url}/blocks/{block.hash}")
    data = data_of(block)
    if data is not None:
        first, last = data.offset_interval.start, data.offset_interval.end
        cut = f"asAt={block.hash}&projection=changelog&skip={first}&limit={last - first + 1}"
        add(entry, "link", rel="related", title="rows", href=f"{shown.url}/read?{cut}")
    add(entry, "summary", f"Block {block.sequence_number} of {shown.alias}. {told}")


def add(parent: Xml.Element, name: str, text: str | None = None, **attributes: str) -> Xml.Element:
    """Add an element; of the text, characters that XML forbids are replaced."""
    made = Xml.SubElement(parent, name, attributes)
    if text is not None:
        made.text = NO_XML.sub("\ufffd", text)
    return made


ENTRIES = 50
LINES_A_LOOK = 200
MOST_LINES = 2_000
"""Limit of log lines read for one page. A caller who may read few datasets may get a short page."""
Address = Callable[[DatasetEntry], str]
"""Returns the URL of a dataset, without a slash at the end."""


@dataclass(frozen=True)
class AtomFeeds:
    """Makes feeds."""

    heads: Heads
    moves: RefIndex
    blocks: BlockIndex
    reading: Reading
    access: DatasetAccess
    clock: Clock

    def of_dataset(self, entry: DatasetEntry, url: str, before: Multihash | None) -> bytes:
        """Return the feed of a dataset's newest blocks, or of those before the block `before`.

        Raises:
            BlockNotFound: the dataset does not have the block `before`. DatasetNotFound.
        """
        start: Multihash | None = self.heads.head(entry.id)
        if before is not None:
            found = self.blocks.find(entry.id, before)
            if found is None:
                raise BlockNotFound(before)
            start = found.prev
        blocks = self.blocks.ancestors(entry.id, start, limit=ENTRIES) if start else ()
        alias = self.access.shown_alias(entry)
        last = blocks[-1] if blocks else None
        more = last is not None and last.prev is not None
        own = f"{url}/events/atom"
        head = Head(
            id=str(entry.id),
            title=alias,
            url=own if before is None else f"{own}?before={before}",
            about=url,
            updated=blocks[0].block.system_time if blocks else entry.created_at,
            next=f"{own}?before={last.hash}" if more and last is not None else None,
        )
        shown = [Shown(entry, alias, url, block) for block in blocks]
        return feed(head, shown, names_datasets=False)

    def of_node(self, actor: Actor, base: str, address: Address, before: int | None) -> bytes:
        """Return the feed of the newest head moves that the actor may read: one entry per move."""
        shown: list[Shown] = []
        looked, cursor = 0, before
        with self.reading() as reader:
            while len(shown) < ENTRIES and looked < MOST_LINES:
                moves = self.moves.newest_moves(before=cursor, limit=LINES_A_LOOK)
                entries = reader.registry.find_all({move.dataset for move in moves})
                for move in moves:
                    cursor, looked = move.number, looked + 1
                    entry = entries.get(move.dataset)
                    readable = entry is not None and self.access.may_read(actor, entry)
                    if entry is None or not readable or move.ref != HEAD:
                        continue
                    block = reader.blocks.find(entry.id, move.new)
                    if block is not None:
                        alias = self.access.shown_alias(entry)
                        shown.append(Shown(entry, alias, address(entry), block))
                    if len(shown) == ENTRIES:
                        break
                if len(moves) < LINES_A_LOOK:
                    break
        own = f"{base}events/atom"
        head = Head(
            id=own,
            title="What is new",
            url=own if before is None else f"{own}?before={before}",
            about=base,
            updated=shown[0].block.block.system_time if shown else self.clock(),
            next=f"{own}?before={cursor}" if cursor is not None and cursor > 1 else None,
        )
        return feed(head, shown, names_datasets=True)
