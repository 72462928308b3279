"""Create the datasets of several manifests in the order of their inputs: all of them or none.

The node creates datasets one by one. If it refuses one, the client deletes the ones created before;
until then other users may see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from odf_protocol.codec.manifests import manifest
from odf_protocol.errors import NodeError
from odf_protocol.metadata.block import DatasetSnapshot

from .http import TransferFailed
from .manifest_order import in_order

Create = Callable[[bytes], dict[str, Any]]
Delete = Callable[[dict[str, Any]], None]


class LeftBehind(TransferFailed):
    """A manifest was refused, and some datasets created before could not be deleted."""


def create_all(
    snapshots: Sequence[DatasetSnapshot], create: Create, delete: Delete
) -> list[dict[str, Any]]:
    """Create all datasets and return the node's responses in the order of creation.

    Raises `LeftBehind`, and the same errors as `create`.
    """
    created: list[dict[str, Any]] = []
    for one in in_order(snapshots):
        try:
            created.append(create(json.dumps(manifest("DatasetSnapshot", one)).encode()))
        except NodeError as refused:
            _undo(created, delete, refused)
            raise type(refused)(f"{one.name}: {refused.message}", **refused.facts) from refused
    return created


def _undo(created: list[dict[str, Any]], delete: Delete, refused: NodeError) -> None:
    left: list[str] = []
    for one in reversed(created):
        try:
            delete(one)
        except NodeError:
            left.append(str(one.get("alias")))
    if left:
        raise LeftBehind(
            f"{refused.message}; these were created and could not be deleted again: "
            f"{', '.join(left)}",
            datasets=left,
        ) from refused
