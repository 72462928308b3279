"""Datasets of the examples' manifests, as a node makes them."""

from __future__ import annotations

from pathlib import Path

from tests.workers.datasets import now

from odf_protocol.chain.rules import author
from odf_protocol.chain.snapshot import prepare
from odf_protocol.chain.state import EMPTY
from odf_protocol.codec.manifests import load_snapshots
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, Visibility

EXAMPLES = Path(__file__).parents[3] / "examples"


def made(stores: Stores, path: Path) -> Dataset:
    """The dataset of a manifest."""
    (snapshot,) = load_snapshots(path.read_text())

    def resolve(ref: DatasetRef) -> DatasetId | None:
        found = stores.registry.find(DatasetRef(alias=DatasetAlias.parse(f"kamu/{ref}")))
        return None if found is None else found.id

    dataset = DatasetId(str(snapshot.name).encode().ljust(32, b"."))
    events = prepare(snapshot, dataset_id=dataset, resolve=resolve)
    blocks, _ = author(EMPTY, events, system_time=now())
    alias = DatasetAlias.parse(f"kamu/{snapshot.name}")
    entry = DatasetEntry(dataset, alias, snapshot.kind, Visibility.PUBLIC, now())
    return stores.create_dataset(entry, blocks)
