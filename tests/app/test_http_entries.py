"""Registry entries are remembered for a second, and not longer."""

from __future__ import annotations

import pytest
from service import NOON, seeded
from throwaway import throwaway_stores

from odf_node.service.auth.dataset_access import MAX_ENTRIES, EntryMemory
from odf_protocol.identity import DatasetAlias
from odf_protocol.metadata.events import DatasetKind
from odf_storage.stores.ports.values import DatasetEntry, Visibility


@pytest.fixture
def stores():
    return throwaway_stores()


@pytest.fixture
def clock():
    return [100.0]


def _keep(stores, alias):
    chain = seeded()
    entry = DatasetEntry(
        chain.id, DatasetAlias.parse(alias), DatasetKind.Root, Visibility.PUBLIC, NOON
    )
    stores.create_dataset(entry, chain.blocks)
    return entry


def test_a_forgotten_dataset_is_gone_after_a_second(stores, clock):
    memory = EntryMemory(stores.registry, now=lambda: clock[0])
    entry = _keep(stores, "alice/data")
    assert memory.find(DatasetAlias.parse("ALICE/Data")) == entry
    stores.forget_dataset(entry.id)
    assert memory.find(entry.alias) == entry
    clock[0] += 1.0
    assert memory.find(entry.alias) is None


def test_a_new_dataset_is_found_at_once(stores, clock):
    memory = EntryMemory(stores.registry, now=lambda: clock[0])
    assert memory.find(DatasetAlias.parse("alice/new")) is None
    entry = _keep(stores, "alice/new")
    assert memory.find(entry.alias) == entry


def test_memory_is_bounded(stores, clock):
    memory = EntryMemory(stores.registry, now=lambda: clock[0])
    entry = _keep(stores, "alice/data")
    for number in range(MAX_ENTRIES):
        memory._known[f"a/{number}"] = (200.0, entry)
    assert memory.find(entry.alias) == entry
    assert len(memory._known) == MAX_ENTRIES
