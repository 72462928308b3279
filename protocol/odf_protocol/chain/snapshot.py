"""Converts a manifest to the events of a chain: normalizes SQL and resolves inputs.

A manifest refers to inputs by alias or id, and may have a transform with a single `query`. A
chain contains ids, an alias for each input, and only a list of `queries`.
Source: ODF "DatasetSnapshot"; rules as reference peers create datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from ..errors import BadInput
from ..identity import DatasetId, DatasetRef
from ..metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DatasetSnapshot,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    Transform,
    TransformInput,
)

Resolve = Callable[[DatasetRef], DatasetId | None]

NEVER_IN_A_SNAPSHOT = (Seed, AddData, ExecuteTransform, DisablePollingSource, DisablePushSource)
ONLY_IN_A: dict[type, DatasetKind] = {
    SetPollingSource: DatasetKind.Root,
    AddPushSource: DatasetKind.Root,
    SetTransform: DatasetKind.Derivative,
}


def invalid_snapshot(event: MetadataEvent, reason: str) -> BadInput:
    """The manifest does not describe a dataset. Facts: `event` (kind), `reason`."""
    kind = type(event).__name__
    return BadInput(
        "InvalidSnapshot", f"{kind} in the manifest: {reason}", event=kind, reason=reason
    )


class MissingInputs(BadInput):
    """This node does not know some inputs of a transform. Facts: `missing` (references)."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(
            f"inputs not found: {', '.join(missing)}; create or pull them first",
            missing=list(missing),
        )
        self.missing = tuple(missing)


def prepare(
    snapshot: DatasetSnapshot, *, dataset_id: DatasetId, resolve: Resolve
) -> tuple[MetadataEvent, ...]:
    """Return the events of the new dataset, `Seed` first, ready for `author`.

    Raises:
        InvalidSnapshot: an event that is not allowed in a manifest, or in this kind of dataset,
            or SQL that cannot be normalised.
        MissingInputs: all inputs that `resolve` does not know.
    """
    normal = [_normalise_sql(event) for event in snapshot.metadata]
    events = _resolve_inputs(normal, resolve)
    for event in events:
        _check_allowed(event, snapshot.kind)
    return (Seed(dataset_id=dataset_id, dataset_kind=snapshot.kind), *events)


def normalize_event(event: MetadataEvent, resolve: Resolve) -> MetadataEvent:
    """Return a user's event in the form that a chain contains. Raises like `prepare`."""
    return _resolve_inputs([_normalise_sql(event)], resolve)[0]


def _normalise_sql(event: MetadataEvent) -> MetadataEvent:
    match event:
        case SetTransform():
            return replace(event, transform=_steps_only(event, event.transform))
        case SetPollingSource(preprocess=sql) | AddPushSource(preprocess=sql) if sql is not None:
            return replace(event, preprocess=_steps_only(event, sql))
        case _:
            return event


def _steps_only(event: MetadataEvent, transform: Transform) -> Transform:
    if transform.query is not None:
        if transform.queries is not None:
            raise invalid_snapshot(event, "give either query or queries, not both")
        step = SqlQueryStep(query=transform.query)
        return replace(transform, query=None, queries=(step,))
    unnamed = sum(step.alias is None for step in transform.queries or ())
    if unnamed > 1:
        raise invalid_snapshot(event, "only the last of the queries goes without an alias")
    return transform


def _resolve_inputs(events: Iterable[MetadataEvent], resolve: Resolve) -> list[MetadataEvent]:
    missing: dict[str, None] = {}
    resolved: list[MetadataEvent] = []
    for event in events:
        if isinstance(event, SetTransform):
            inputs = tuple(_resolved(item, resolve, missing) for item in event.inputs)
            event = replace(event, inputs=inputs)
        resolved.append(event)
    if missing:
        raise MissingInputs(list(missing))
    return resolved


def _resolved(item: TransformInput, resolve: Resolve, missing: dict[str, None]) -> TransformInput:
    """Return the input by id; without an alias, the text of the reference becomes the alias."""
    text = str(item.dataset_ref)
    found = resolve(item.dataset_ref)
    if found is None:
        missing[text] = None
        return item
    alias = text if item.alias is None else item.alias
    return TransformInput(dataset_ref=DatasetRef(id=found), alias=alias)


def _check_allowed(event: MetadataEvent, kind: DatasetKind) -> None:
    if isinstance(event, NEVER_IN_A_SNAPSHOT):
        raise invalid_snapshot(event, "a manifest holds definitions only, this is history")
    wanted = ONLY_IN_A.get(type(event), kind)
    if wanted is not kind:
        raise invalid_snapshot(event, f"it belongs into a {wanted.lower()}, not a {kind.lower()}")
