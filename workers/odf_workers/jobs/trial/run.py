"""A trial: compute the content of datasets that manifests describe. Nothing is committed."""

from __future__ import annotations

from pathlib import Path

from odf_protocol.chain.author import author
from odf_protocol.chain.state import EMPTY
from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind, MetadataEvent, Seed
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.trial_job import (
    TrialDataset,
    TrialPayload,
    TrialReceipt,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, Visibility

from ..transform.files import work_folder
from ..work.context import WorkerContext
from .derivatives import try_transform
from .roots import NothingToTry, try_columns, try_sample
from .tried import Tried


def run_trial(
    stores: Stores,
    payload: TrialPayload,
    sample: bytes | None,
    context: WorkerContext,
    *,
    now: Instant,
) -> TrialReceipt:
    """Try each dataset, inputs before the derivatives computed from them.

    Raises:
        NodeError: the error of the first refused dataset; the fact `dataset` names it.
    """
    tried: dict[DatasetId, Tried] = {}
    with work_folder(context.scratch, "trial-") as name:
        for number, described in enumerate(payload.datasets):
            folder = Path(name) / str(number)
            known = _described(described, stores, now)
            body = sample if payload.sample_of == described.alias else None
            try:
                if known.state.kind is DatasetKind.Root and body is not None:
                    found = try_sample(known, body, payload, context, folder, now=now)
                elif known.state.kind is DatasetKind.Root:
                    found = try_columns(known, context, folder)
                elif body is not None:
                    raise NothingToTry("a derivative computes its rows: a sample is for a root")
                else:
                    most = payload.input_rows
                    found = try_transform(
                        known, tried, stores, context, folder, input_rows=most, now=now
                    )
            except NodeError as refused:
                refused.facts.setdefault("dataset", described.alias)
                raise
            tried[known.dataset.id] = found
    shown = (found.outcome(payload.shown_rows) for found in tried.values())
    return TrialReceipt(datasets=tuple(shown))


def _described(described: TrialDataset, stores: Stores, now: Instant) -> Tried:
    """Return the dataset with the initial state of its chain."""
    seed: Seed = from_data(described.events[0], Seed)
    events = [from_data(event, MetadataEvent) for event in described.events]
    _, state = author(EMPTY, events, system_time=now)
    alias = DatasetAlias.parse(described.alias)
    entry = DatasetEntry(seed.dataset_id, alias, seed.dataset_kind, Visibility.PRIVATE, now)
    return Tried(dataset=Dataset(entry, stores), state=state)
