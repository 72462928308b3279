"""Have a node mirror a dataset of another node: create the mirror, or pull into an existing one."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from odf_protocol.errors import BadInput

from .http import open_http
from .limits import LIMITS, ClientLimits
from .node_api import NodeApi, NothingThere
from .urls import Location, Transfer


class NotOnANode(BadInput):
    """The source or the target of a mirror is not on a node."""


def mirror_at(
    target: Location,
    source: Location,
    *,
    token: str | None = None,
    source_token: str | None = None,
    force: bool = False,
    visibility: str = "private",
    limits: ClientLimits = LIMITS,
) -> dict[str, Any]:
    """Return the receipt of the pull. The target's node stores the source's token encrypted.

    Raises:
        NotOnANode, RequestRefused, RequestConflict, Refused, TransferFailed
    """
    if source.transfer not in (Transfer.SMART, Transfer.SIMPLE):
        raise NotOnANode(f"a node can mirror a URL, not {source}")
    base, name = _on_node(target)
    with open_http(limits) as http:
        there = NodeApi(target.base, token, http=http, limits=limits)
        try:
            there.look("mirror")
        except NothingThere:
            content = {"name": name, "remote": str(source), "token": source_token}
            manifest = {"kind": "DatasetMirror", "version": 1, "content": content}
            node = NodeApi(base, token, http=http, limits=limits)
            node.create_dataset(json.dumps(manifest).encode(), visibility=visibility)
        return there.refresh(force=force)


def _on_node(target: Location) -> tuple[str, str]:
    """Return the URL of the node, and the name of the dataset as the node writes it."""
    parts = urlsplit(target.base)
    segments = [unquote(part) for part in parts.path.split("/") if part]
    if target.transfer is not Transfer.SMART or not 1 <= len(segments) <= 2:
        raise NotOnANode(f"a node mirrors at odf+http(s)://host/[account/]name, not at {target}")
    return f"{parts.scheme}://{parts.netloc}/", "/".join(segments)
