"""Datasets of the examples' manifests, as a node makes them."""

from __future__ import annotations

from pathlib import Path

from protocol.chain.author import author
from protocol.chain.snapshot import prepare
from protocol.chain.state import EMPTY
from protocol.codec.manifests import load_snapshots
from protocol.identity import DatasetAlias, DatasetId, DatasetRef
from storage.dataset import Dataset
from storage.stores import Stores
from storage.values import DatasetEntry, Visibility
from tests.workers.datasets import now

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
