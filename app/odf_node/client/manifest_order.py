"""Sort several manifests so that inputs come first. This needs no connection."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias
from odf_protocol.metadata.block import DatasetSnapshot
from odf_protocol.metadata.events import SetTransform


class CircularInputs(BadInput):
    """Datasets are computed from each other."""


class NameGivenTwice(BadInput):
    """Two manifests describe the same dataset."""


def in_order(snapshots: Sequence[DatasetSnapshot]) -> list[DatasetSnapshot]:
    """Sort inputs before their derivatives. Raises `CircularInputs`, `NameGivenTwice`."""
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
    """Return the names of inputs that also have a manifest."""
    events = [event for event in one.metadata if isinstance(event, SetTransform)]
    found = [each.dataset_ref.alias for event in events for each in event.inputs]
    wanted = [_folded(alias, one.name) for alias in found if alias is not None]
    return [
        next(name for name in spelled if name in names)
        for spelled in wanted
        if any(name in names for name in spelled)
    ]


def _folded(alias: DatasetAlias, of: DatasetAlias) -> tuple[str, ...]:
    """Return the spellings of an input in its manifest: with the account or without."""
    with_account = alias if alias.account else DatasetAlias(alias.name, of.account)
    return alias.folded, with_account.folded
