"""What a store of authors of definitions promises. Subclasses give `stores`."""

from __future__ import annotations

import pytest
from chain_maker import some_id
from tests.conformance.access_stores import dataset

from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.following import NOBODY, Author
from odf_storage.stores.ports.values import AccountId, Reach

ONE, OTHER = Multihash.of(b"one"), Multihash.of(b"other")
ALICE = Author(AccountId("did:odf:alice"))
BOUND = Author(AccountId("did:odf:alice"), Reach.DATASET)


class DefinitionAuthorsContract:
    def test_authors_are_found_as_they_were_put(self, stores: Stores) -> None:
        made = dataset(stores)
        assert not stores.definitions.of_dataset(made)
        stores.definitions.put(made, ONE, ALICE)
        stores.definitions.put(made, OTHER, NOBODY)
        assert stores.definitions.of_dataset(made) == {ONE: ALICE, OTHER: NOBODY}
        assert not stores.definitions.of_dataset(dataset(stores, "other"))

    def test_the_last_one_counts(self, stores: Stores) -> None:
        made = dataset(stores)
        stores.definitions.put(made, ONE, ALICE)
        stores.definitions.put(made, ONE, BOUND)
        assert stores.definitions.of_dataset(made) == {ONE: BOUND}

    def test_they_go_with_their_dataset(self, stores: Stores) -> None:
        made = dataset(stores)
        stores.definitions.put(made, ONE, ALICE)
        stores.registry.forget(made)
        assert not stores.definitions.of_dataset(made)
        with pytest.raises(DatasetNotFound):
            stores.definitions.put(made, ONE, ALICE)
        with pytest.raises(DatasetNotFound):
            stores.definitions.put(some_id("nobody"), ONE, ALICE)
