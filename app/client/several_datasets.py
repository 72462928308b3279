"""Several manifests as one request: in the order of their inputs, all of them or none.

The node creates datasets one by one. When it refuses one, those created before are deleted again;
between the two moments others may see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from odf_node.protocol.codec.manifests import manifest
from odf_node.protocol.errors import BadInput, NodeError
from odf_node.protocol.identity import DatasetAlias
from odf_node.protocol.metadata.block import DatasetSnapshot
from odf_node.protocol.metadata.events import SetTransform

from .http import TransferFailed

Create = Callable[[bytes], dict[str, Any]]
Delete = Callable[[dict[str, Any]], None]


class CircularInputs(BadInput):
    """Datasets that are computed from each other."""


class NameGivenTwice(BadInput):
    """Two manifests for one dataset."""


class LeftBehind(TransferFailed):
    """A manifest was refused, and what was created before could not be deleted again."""


def in_order(snapshots: Sequence[DatasetSnapshot]) -> list[DatasetSnapshot]:
    """Inputs before what is computed from them. Raises `CircularInputs`, `NameGivenTwice`."""
    by_name: dict[str, DatasetSnapshot] = {}
    for one in snapshots:
        if by_name.setdefault(one.name.folded, one) is not one:
            raise NameGivenTwice(f"two manifests are about {one.name}", dataset=str(one.name))
    graph = {name: inputs_among(one, by_name) for name, one in by_name.items()}
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as circle:
        names = [str(by_name[name].name) for name in reversed(circle.args[1])]
        raise CircularInputs(
            f"datasets are computed from each other: {' from '.join(names)}", datasets=names
        ) from None


def inputs_among(one: DatasetSnapshot, names: dict[str, DatasetSnapshot]) -> list[str]:
    """Names of inputs that have a manifest as well."""
    events = [event for event in one.metadata if isinstance(event, SetTransform)]
    found = [each.dataset_ref.alias for event in events for each in event.inputs]
    wanted = [_folded(alias, one.name) for alias in found if alias is not None]
    return [
        next(name for name in spelled if name in names)
        for spelled in wanted
        if any(name in names for name in spelled)
    ]


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


def _folded(alias: DatasetAlias, of: DatasetAlias) -> tuple[str, ...]:
    """How an input may be spelled in the name of its own manifest: with the account or without."""
    with_account = alias if alias.account else DatasetAlias(alias.name, of.account)
    return alias.folded, with_account.folded
