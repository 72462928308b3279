"""Have a node mirror a dataset of another one: made if it is not there, else pulled."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from odf_node.protocol.errors import BadInput

from .http import open_http
from .limits import LIMITS, ClientLimits
from .node_api import NodeApi, NothingThere
from .urls import Location, Transfer


class NotOnANode(BadInput):
    """A mirror is a dataset on a node, of a dataset on another one."""


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
    """The receipt of the pull. The token of the source is kept by the target's node, encrypted.

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
    """URL of the node, and name of the dataset as the node writes it."""
    parts = urlsplit(target.base)
    segments = [unquote(part) for part in parts.path.split("/") if part]
    if target.transfer is not Transfer.SMART or not 1 <= len(segments) <= 2:
        raise NotOnANode(f"a node mirrors at odf+http(s)://host/[account/]name, not at {target}")
    return f"{parts.scheme}://{parts.netloc}/", "/".join(segments)
