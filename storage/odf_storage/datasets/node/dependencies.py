"""The graph of the datasets of a node: which datasets a derivative reads, and which read it.

A chain contains the inputs of its dataset; the registry knows the other direction. The walk ends
at datasets that are not on this node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetId, DatasetRef

from ...stores.ports import DatasetInputs
from .stores import Stores


class DependencyCycle(Conflict):
    """A derivative would depend on itself through its inputs."""

    def __init__(self, dataset: DatasetId) -> None:
        super().__init__(f"{dataset} would depend on itself", dataset_id=str(dataset))


class InputsNotHere(BadInput):
    """Inputs are not on this node, or are hidden from the author of the definition."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(
            f"inputs that are not here: {', '.join(missing)}; create or pull them first, or have "
            "them shown to who defined the derivative",
            missing=list(missing),
        )


def declared(state: ChainState) -> list[DatasetId]:
    """Return the ids of the inputs of a derivative, each once; none for a root dataset."""
    return list(dict.fromkeys(item for item in state.declared_inputs or () if item is not None))


def remember_inputs(stores: Stores, dataset: DatasetId) -> None:
    """Copy the inputs from the chain to the registry. Raises `DatasetNotFound`."""
    stores.registry.set_inputs(dataset, inputs_of(stores, dataset))


def remember_declared(registry: DatasetInputs, dataset: DatasetId, state: ChainState) -> None:
    """Copy the inputs that the state declares, if any, to the registry."""
    if inputs := declared(state):
        registry.set_inputs(dataset, inputs)


def inputs_of(stores: Stores, dataset: DatasetId) -> list[DatasetId]:
    """Return the inputs of a dataset; none if the dataset is not here."""
    if stores.registry.find(DatasetRef(id=dataset)) is None:
        return []
    return declared(stores.dataset(DatasetRef(id=dataset)).state())


def upstream(stores: Stores, dataset: DatasetId) -> dict[DatasetId, int]:
    """Return all datasets that a dataset depends on, with the longest distance to each."""
    return depths(dataset, lambda one: inputs_of(stores, one))


def downstream(stores: Stores, dataset: DatasetId) -> dict[DatasetId, int]:
    """Return all datasets that depend on a dataset, with the longest distance to each."""
    return depths(dataset, stores.registry.dependants)


def refuse_cycle(stores: Stores, dataset: DatasetId, inputs: Iterable[DatasetId]) -> None:
    """Raise `DependencyCycle` if the dataset is one of these inputs or depends on itself by
    them."""
    for one in inputs:
        if one == dataset or dataset in upstream(stores, one):
            raise DependencyCycle(dataset)


def depths(
    start: DatasetId, next_of: Callable[[DatasetId], Sequence[DatasetId]]
) -> dict[DatasetId, int]:
    """Return the length of the longest path to each reachable dataset; a cycle is walked once."""
    depths, order, begun = dict[DatasetId, int](), list[DatasetId](), {start}
    steps = [(start, iter(next_of(start)))]
    edges = dict[DatasetId, list[DatasetId]]()
    while steps:
        one, rest = steps[-1]
        child = next(rest, None)
        if child is None:
            order.append(one)
            steps.pop()
            continue
        edges.setdefault(one, []).append(child)
        if child not in begun:
            begun.add(child)
            steps.append((child, iter(next_of(child))))
    position = {one: at for at, one in enumerate(reversed(order))}
    for one in reversed(order):
        for child in edges.get(one, ()):
            if position[child] > position[one]:  # else it closes a cycle
                depths[child] = max(depths.get(child, 0), depths.get(one, 0) + 1)
    if any(start in edges.get(one, ()) for one in begun):
        depths[start] = len(begun)
    return depths
