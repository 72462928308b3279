"""Several manifests as one request: in the order of their inputs, all of them or none.

The node creates datasets one by one. When it refuses one, those created before are deleted again;
between the two moments others may see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from odf_node.protocol.codec.manifests import manifest
from odf_node.protocol.errors import NodeError
from odf_node.protocol.metadata.block import DatasetSnapshot

from .http import TransferFailed
from .inputs_first import in_order

Create = Callable[[bytes], dict[str, Any]]
Delete = Callable[[dict[str, Any]], None]


class LeftBehind(TransferFailed):
    """A manifest was refused, and what was created before could not be deleted again."""


def create_all(
    snapshots: Sequence[DatasetSnapshot], create: Create, delete: Delete
) -> list[dict[str, Any]]:
    """What the node says of each, in the order of creation. Raises as `create`, `LeftBehind`."""
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
