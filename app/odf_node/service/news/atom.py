"""Write feeds of blocks as Atom documents (RFC 4287), in pages (RFC 5005)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from odf_protocol.instant import Instant
from odf_protocol.metadata.block import HashedBlock
from odf_storage.stores.ports.values import DatasetEntry

from ...client.event_lines import summary
from .notices import data_of

MEDIA_TYPE = "application/atom+xml; charset=utf-8"
NAMESPACE = "http://www.w3.org/2005/Atom"
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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
    _add(root, "id", head.id)
    _add(root, "title", head.title)
    _add(root, "updated", str(head.updated))
    _add(root, "link", rel="self", type=MEDIA_TYPE.partition(";")[0], href=head.url)
    _add(root, "link", rel="alternate", href=head.about)
    if head.next is not None:
        _add(root, "link", rel="next", href=head.next)
    for shown in blocks:
        _add_entry(root, shown, names_datasets=names_datasets)
    written: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _add_entry(root: Xml.Element, shown: Shown, *, names_datasets: bool) -> None:
    block, entry = shown.block, Xml.SubElement(root, "entry")
    told = summary(block.event)
    time = str(block.block.system_time)
    _add(entry, "id", f"urn:odf:{block.hash}")
    _add(entry, "title", f"{shown.alias}: {told}" if names_datasets else told)
    _add(entry, "updated", time)
    _add(entry, "published", time)
    author = Xml.SubElement(entry, "author")
    _add(author, "name", str(shown.entry.alias.account or shown.alias))
    _add(entry, "link", rel="alternate", href=f"{shown.url}/blocks/{block.hash}")
    data = data_of(block)
    if data is not None:
        first, last = data.offset_interval.start, data.offset_interval.end
        cut = f"asAt={block.hash}&projection=changelog&skip={first}&limit={last - first + 1}"
        _add(entry, "link", rel="related", title="rows", href=f"{shown.url}/read?{cut}")
    _add(entry, "summary", f"Block {block.sequence_number} of {shown.alias}. {told}")


def _add(parent: Xml.Element, name: str, text: str | None = None, **attributes: str) -> None:
    made = Xml.SubElement(parent, name, attributes)
    if text is not None:
        made.text = _NO_XML.sub("\ufffd", text)
