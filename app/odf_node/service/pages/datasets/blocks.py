"""Contents of the pages of blocks: the history of a dataset, and one block.

The differences between an event and the earlier event that it replaces, line by line.

The functions are pure.

The context of a request for a page of a dataset: actor, dataset, address.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from typing import Any, NamedTuple

from odf_protocol.chain.state import ChainState
from odf_protocol.codec.manifests import to_data, to_yaml
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddData, ExecuteTransform, HashedBlock, Seed, UnknownEvent
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.upkeep.marks import walk_back
from odf_storage.stores.ports import BlockIndex
from odf_storage.stores.ports.values import DatasetEntry

from ....client.uses.event_texts import event_detail, event_name
from ...auth.actors import Actor
from ...features import features
from ...http.parameters import parse_hash
from ..frame import views
from ..frame.views import Views, root_of

MAX_LINES = 1000
"""Limit of lines of a compared event: the time grows with their square."""
MAX_LINE_CHARS = 400
MAX_CHARS = 200_000
"""Limit of characters of an event as text; the file of the block has the rest."""
CONTEXT = 3


class PageLine(NamedTuple):
    """A line of a difference. `sign` is `+` or `-`, a blank for an unchanged line, or `@` where
    lines were left out."""

    sign: str
    text: str


def event_text(event: Any) -> str:
    """Return an event as readable YAML, without blanks at the ends of lines: these would make
    YAML write a query as one long line."""
    if isinstance(event, UnknownEvent):
        return f"{event.name or event.discriminator}: {event.detail}\n"
    return to_yaml(_readable(to_data(event)))


def subject_of(event: Any) -> tuple[str, ...] | None:
    """Return what an event defines, so that a later one replaces it; None if it only adds."""
    if isinstance(event, AddData | ExecuteTransform | Seed | UnknownEvent):
        return None
    source = getattr(event, "source_name", "")
    return (type(event).__name__, source)


def replaced_by(event: Any, older: Iterable[HashedBlock]) -> HashedBlock | None:
    """Return the newest of the older blocks that defines the same subject."""
    subject = subject_of(event)
    if subject is None:
        return None
    return next((one for one in older if subject_of(one.event) == subject), None)


def changes(old: Any, new: Any) -> list[PageLine] | None:
    """Return the lines that differ, with context lines; None if the events are too long."""
    before, after = (event_text(each).splitlines() for each in (old, new))
    if max(len(before), len(after)) > MAX_LINES:
        return None
    found = difflib.unified_diff(before, after, n=CONTEXT, lineterm="")
    return [_line(text) for text in list(found)[2:]]


def _line(text: str) -> PageLine:
    if text.startswith("@@"):
        return PageLine("@", "")
    cut = text[1:]
    return PageLine(text[0], cut if len(cut) <= MAX_LINE_CHARS else cut[: MAX_LINE_CHARS - 1] + "…")


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, str) and "\n" in value:
        return "\n".join(line.rstrip().expandtabs(4) for line in value.splitlines())
    return value


@cache
def dataset_pages() -> dict[str, str]:
    """Return the places of the pages of features, by the parameter that selects each."""
    return {name: place for each in features() for name, place in each.dataset_pages.items()}


@dataclass(frozen=True)
class Visit:
    """A request for a page of one dataset, which the actor may read."""

    views: Views
    actor: Actor
    entry: DatasetEntry
    base: str
    """URL of the node, with a slash at the end."""
    caller: str
    """The key under which the request counts against the share of readers."""
    is_open: bool
    """Whether everybody may read the dataset. Scripts of a page send no session, so they work only
    on such datasets."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """The query parameters."""

    @cached_property
    def alias(self) -> str:
        return self.views.access.shown_alias(self.entry)

    @property
    def path(self) -> str:
        """Path of the dataset's page in links."""
        return f"{root_of(self.views)}/{self.alias}"

    @property
    def url(self) -> str:
        return f"{self.base}{self.alias}"

    @cached_property
    def dataset(self) -> Dataset:
        return self.views.stores.dataset(DatasetRef(id=self.entry.id))

    @cached_property
    def state(self) -> ChainState:
        """State of its chain as of the head."""
        return self.dataset.state()

    def content(self, **more: Any) -> dict[str, Any]:
        """Return what all pages of a dataset show, and `more`."""
        path = self.path.removeprefix(root_of(self.views))
        return {
            **views.frame(self.views, self.actor, path),
            "alias": self.alias,
            "at": self.path,
            "url": self.url,
            "is_open": self.is_open,
            # Rows lead to the page that says why they are there, if there is one.
            "offset_column": self.state.vocab.offset_column if "why" in dataset_pages() else None,
            "head": str(self.state.head),
            **more,
        }


BLOCKS = 100
"""Number of blocks on a page of the history."""
LOOKED_BACK = 1000
"""Number of older blocks that are searched for the event that a block replaces."""


def block_line(block: HashedBlock) -> dict[str, Any]:
    """Return a block as an entry of a list."""
    return {
        "number": block.sequence_number,
        "hash": str(block.hash),
        "at": str(block.block.system_time),
        "event": event_name(block.event),
        "detail": event_detail(block.event),
    }


def newest(visit: Visit, most: int) -> list[dict[str, Any]]:
    """Return the newest blocks, at most `most`."""
    return [
        block_line(one)
        for one in _blocks(visit).ancestors(visit.entry.id, visit.dataset.head(), limit=most)
    ]


def history(visit: Visit, asked: str) -> dict[str, Any]:
    """Return blocks from the named one backwards. Raises `UnreadableHash`, `BlockNotFound`."""
    start = visit.dataset.block(parse_hash(asked)).hash if asked else visit.dataset.head()
    found = _blocks(visit).ancestors(visit.entry.id, start, limit=BLOCKS)
    last = found[-1]
    return {
        "blocks": [block_line(one) for one in found],
        "older": str(last.prev) if last.prev else None,
        "is_first": start == visit.dataset.head(),
        "count": visit.state.num_blocks,
    }


def block(visit: Visit, asked: str) -> dict[str, Any]:
    """Return the content of one block's page. Raises `UnreadableHash`, `BlockNotFound`."""
    found = visit.dataset.block(parse_hash(asked))
    ((_, raw),) = _blocks(visit).raw(visit.entry.id, found.hash, limit=1)
    text = event_text(found.event)
    return {
        "block": block_line(found),
        "previous": str(found.prev) if found.prev else None,
        "size": len(raw),
        "format": found.version,
        "event_text": text[:MAX_CHARS],
        "is_cut": len(text) > MAX_CHARS,
        "objects": _objects(found),
        **_changed(visit, found),
    }


def _objects(found: HashedBlock) -> list[dict[str, Any]]:
    """Return the slice and the checkpoint that a block adds."""
    event = found.event
    if not isinstance(event, AddData | ExecuteTransform):
        return []
    objects: list[dict[str, Any]] = []
    if event.new_data is not None:
        data = event.new_data
        objects.append(
            {
                "kind": "Slice",
                "path": f"data/{data.physical_hash}",
                "file": f"{data.physical_hash}.parquet",
                "hash": str(data.physical_hash),
                "size": data.size,
                "logical": str(data.logical_hash),
                "offsets": (data.offset_interval.start, data.offset_interval.end),
            }
        )
    if event.new_checkpoint is not None:
        kept = event.new_checkpoint
        objects.append(
            {
                "kind": "Checkpoint",
                "path": f"checkpoints/{kept.physical_hash}",
                "file": str(kept.physical_hash),
                "hash": str(kept.physical_hash),
                "size": kept.size,
                "logical": None,
                "offsets": None,
            }
        )
    return objects


def _changed(visit: Visit, found: HashedBlock) -> dict[str, Any]:
    """Return the earlier block whose event this block replaces, and the differences."""
    older: Any = ()
    if found.prev is not None:
        older = islice(walk_back(_blocks(visit), visit.entry.id, found.prev), LOOKED_BACK)
    old = replaced_by(found.event, older)
    if old is None:
        return {"replaced": None, "changes": None}
    return {"replaced": block_line(old), "changes": changes(old.event, found.event)}


def _blocks(visit: Visit) -> BlockIndex:
    return visit.views.stores.blocks
