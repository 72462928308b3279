"""The part of a registry entry that is stored beside the objects, to rebuild an index from.

`info/alias` holds the name, as ODF has it; the rest is in `info/node`, one line of JSON:

    {"version":1,"visibility":"Public","createdAt":"2026-01-01T12:00:00Z","pushed":true,
     "unfinished":true}
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from ...stores.ports import DatasetNotes
from ...stores.ports.values import DatasetEntry, Visibility

NODE = "node"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """The facts of an entry that neither the chain nor the alias contains."""

    visibility: Visibility
    created_at: Instant
    pushed: bool = False
    """Whether a push created the dataset."""
    unfinished: bool = False
    """Whether that push announced more blocks than the Seed, and no push of them has ended."""

    def dump(self) -> str:
        return json.dumps(
            {
                "version": VERSION,
                "visibility": self.visibility.value,
                "createdAt": str(self.created_at),
                "pushed": self.pushed,
                "unfinished": self.unfinished,
            },
            separators=(",", ":"),
        )


def load_info(text: str | None) -> NodeInfo | None:
    """Parse the text of `NodeInfo.dump`; return None for no text and for text of another form."""
    try:
        data = json.loads(text or "null")
        if not isinstance(data, dict) or data.get("version") != VERSION:
            return None
        return NodeInfo(
            visibility=Visibility(data["visibility"]),
            created_at=Instant.parse(data["createdAt"]),
            pushed=data.get("pushed") is True,
            unfinished=data.get("unfinished") is True,
        )
    except (BadInput, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_info(objects: DatasetNotes, dataset: DatasetId) -> NodeInfo | None:
    return load_info(objects.read_info(dataset, NODE))


def write_info(
    objects: DatasetNotes, entry: DatasetEntry, *, pushed: bool, unfinished: bool = False
) -> None:
    info = NodeInfo(
        visibility=entry.visibility,
        created_at=entry.created_at,
        pushed=pushed,
        unfinished=unfinished,
    )
    objects.write_info(entry.id, NODE, info.dump())
