"""The lineage graph of a dataset: its inputs and its dependants, as far as the caller may see.

An input that the caller may not read looks like one that is not on this node: the graph contains
its id, which is in the definition of the derivative anyway, but no other facts and no inputs of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.events import SetTransform, Transform
from odf_protocol.typed import convert
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.index.sql import DatasetRegistry
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..limits.texts import LINEAGE_SQL_CHARS
from ..readers.pool import TextAnswers
from ..readers.tasks import ColumnsTask
from .lineage_columns import Cells, Origins

MAX_DATASETS = 1000
"""Limit of datasets in one graph."""
Edge = tuple[DatasetId, DatasetId]
Trace = Callable[[Transform, Mapping[str, Sequence[str]]], Origins | None]
"""Finds the origins of the columns of a transform, given the columns of its inputs."""
Analyse = Callable[[Transform, Mapping[str, Sequence[str]]], Cells | None]
"""Finds out, in the same way, also how the columns get their values."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A dataset that the caller may read, with the state of its chain."""

    entry: DatasetEntry
    state: ChainState
    alias: str

    @property
    def columns(self) -> list[str]:
        schema = self.state.data_schema
        return [] if schema is None else [item.name for item in schema.fields]


@dataclass(slots=True)
class Graph:
    """Datasets by id, in the order they were found; edges lead from input to output."""

    center: DatasetId
    known: dict[DatasetId, GraphNode] = field(default_factory=dict)
    unknown: dict[DatasetId, None] = field(default_factory=dict)
    edges: dict[Edge, None] = field(default_factory=dict)
    is_cut: bool = False
    """Whether the graph is incomplete because of a limit."""


@dataclass(frozen=True)
class LineageSources:
    """The dependencies of functions that build the graph."""

    datasets: Stores
    inputs: DatasetRegistry
    access: DatasetAccess
    texts: TextAnswers


def lineage_of(
    sources: LineageSources, actor: Actor, entry: DatasetEntry, *, up: int, down: int
) -> Graph:
    """Return the graph around a dataset: `up` steps to inputs, and `down` steps to dependants."""
    graph = Graph(entry.id)
    _see(sources, actor, graph, entry.id)
    _follow(sources, actor, graph, up, lambda one: inputs_of(graph.known[one].state), upwards=True)
    _follow(sources, actor, graph, down, sources.inputs.dependants, upwards=False)
    return graph


def inputs_of(state: ChainState) -> list[DatasetId]:
    return [one for one in state.declared_inputs or () if one is not None]


def _follow(
    sources: LineageSources,
    actor: Actor,
    graph: Graph,
    depth: int,
    neighbours: Callable[[DatasetId], Iterable[DatasetId]],
    *,
    upwards: bool,
) -> None:
    waiting, seen = deque([(graph.center, depth)]), {graph.center}
    while waiting:
        one, left = waiting.popleft()
        if one not in graph.known:
            continue
        for other in neighbours(one):
            if left == 0 or len(graph.known) >= MAX_DATASETS:
                graph.is_cut = True
                break
            is_known = _see(sources, actor, graph, other, hidden_is_told=upwards)
            if not is_known and not upwards:
                continue
            graph.edges[(other, one) if upwards else (one, other)] = None
            if other not in seen:
                seen.add(other)
                waiting.append((other, left - 1))


def _see(
    sources: LineageSources,
    actor: Actor,
    graph: Graph,
    one: DatasetId,
    *,
    hidden_is_told: bool = True,
) -> bool:
    """Add the dataset to the graph if the caller may read it; return whether it may."""
    if one in graph.known:
        return True
    entry = sources.access.visible(actor, one)
    try:
        if entry is not None:
            state = sources.datasets.dataset(DatasetRef(id=one)).state()
            graph.known[one] = GraphNode(entry, state, sources.access.shown_alias(entry))
            return True
    except DatasetNotFound:  # deleted meanwhile
        pass
    if hidden_is_told:
        graph.unknown[one] = None
    return False


def origins(
    graph: Graph, item: GraphNode, trace: Trace
) -> dict[str, list[tuple[DatasetId, str]]] | None:
    """Return, for each column of a derivative, the input columns from which it is computed.

    None for a root, and for SQL that cannot be analysed.
    """
    definition = item.state.transform
    if definition is None:
        return None
    names = _names(definition)
    inputs = {
        name: graph.known[dataset].columns if dataset in graph.known else []
        for name, dataset in names.items()
    }
    found = trace(definition.transform, inputs)
    if found is None:
        return None
    return {
        column: [(names[name], origin) for name, origin in parts] for column, parts in found.items()
    }


def tracing(sources: LineageSources, caller: str) -> Trace:
    """Return the function that finds origins for a caller. It raises `ShareTaken`, `AllTaken`."""
    analyse = analysing(sources, caller)

    def trace(transform: Transform, inputs: Mapping[str, Sequence[str]]) -> Origins | None:
        found = analyse(transform, inputs)
        return None if found is None else {name: cell.origins for name, cell in found.items()}

    return trace


def analysing(sources: LineageSources, caller: str) -> Analyse:
    """Return the function that finds out for a caller where columns are from. It raises
    `ShareTaken`, `AllTaken`."""

    def analyse(transform: Transform, inputs: Mapping[str, Sequence[str]]) -> Cells | None:
        steps = transform.queries or ()
        if sum(len(step.query) for step in steps) > LINEAGE_SQL_CHARS:
            return None
        task = ColumnsTask(
            engine=transform.engine,
            queries=[(step.alias, step.query) for step in steps],
            inputs={name: list(columns) for name, columns in inputs.items()},
        )
        answer = sources.texts.answer(task, caller)
        return None if answer is None else convert(answer, Cells)

    return analyse


def _names(definition: SetTransform) -> dict[str, DatasetId]:
    """Return the inputs by the names that the query uses."""
    named = (
        (item.alias or str(item.dataset_ref), item.dataset_ref.id) for item in definition.inputs
    )
    return {name: dataset for name, dataset in named if dataset is not None}


def shown(graph: Graph, trace: Trace | None = None) -> dict[str, Any]:
    """Return the graph as JSON, with the origins of columns if `trace` finds them."""
    datasets: list[dict[str, Any]] = [
        {
            "id": str(one),
            "alias": item.alias,
            "kind": item.entry.kind.value,
            "columns": None if trace is None else _shown_columns(graph, item, trace),
        }
        for one, item in graph.known.items()
    ]
    datasets += [
        {"id": str(one), "alias": None, "kind": None, "columns": None} for one in graph.unknown
    ]
    return {
        "dataset": str(graph.center),
        "datasets": datasets,
        "edges": [{"input": str(one), "output": str(other)} for one, other in graph.edges],
        "isCut": graph.is_cut,
    }


def _shown_columns(graph: Graph, item: GraphNode, trace: Trace) -> dict[str, Any] | None:
    found = origins(graph, item, trace)
    if found is None:
        return None
    return {
        column: [{"dataset": str(one), "column": origin} for one, origin in parts]
        for column, parts in found.items()
    }
