"""What a store of mirrors promises. Subclasses give `stores`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_maker import NOON, some_id
from tests.conformance.access_stores import dataset

from odf_protocol.identity import DatasetId
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.following import Mirror, MirrorState, MirrorStatus

FAILED = MirrorStatus(
    state=MirrorState.FAILED, checked_at=NOON, error="Unreachable", message="no answer"
)


def mirror(of: DatasetId, **more: object) -> Mirror:
    given = {"remote": "odf+https://other.example/foo/", "sealed_token": b"\x00\xff", **more}
    return Mirror(dataset=of, **given)  # type: ignore[arg-type]


class MirrorStoreContract:
    def test_a_mirror_is_found_as_it_was_put(self, stores: Stores) -> None:
        made = mirror(dataset(stores))
        assert stores.mirrors.find(made.dataset) is None
        stores.mirrors.put(made)
        assert stores.mirrors.find(made.dataset) == made
        assert made.status.state is MirrorState.NEW

    def test_of_several_datasets_it_is_told_which_are_mirrors(self, stores: Stores) -> None:
        made, other = mirror(dataset(stores)), dataset(stores, "other")
        stores.mirrors.put(made)
        wanted = [made.dataset, other, some_id("nobody")]
        assert set(stores.mirrors.among(wanted)) == {made.dataset}
        assert not stores.mirrors.among([])

    def test_a_mirror_put_again_is_replaced(self, stores: Stores) -> None:
        made = mirror(dataset(stores))
        stores.mirrors.put(made)
        other = replace(made, remote="https://elsewhere.example/bar/", sealed_token=None)
        stores.mirrors.put(other)
        assert stores.mirrors.find(made.dataset) == other

    def test_only_what_became_of_it_is_noted(self, stores: Stores) -> None:
        made = mirror(dataset(stores))
        stores.mirrors.put(made)
        stores.mirrors.note(made.dataset, FAILED)
        assert stores.mirrors.find(made.dataset) == replace(made, status=FAILED)

    def test_noting_and_removing_what_is_no_mirror_changes_nothing(self, stores: Stores) -> None:
        plain = dataset(stores)
        stores.mirrors.note(plain, FAILED)
        stores.mirrors.remove(plain)
        assert stores.mirrors.find(plain) is None

    def test_what_is_removed_is_a_dataset_like_others(self, stores: Stores) -> None:
        made = mirror(dataset(stores))
        stores.mirrors.put(made)
        stores.mirrors.remove(made.dataset)
        assert stores.mirrors.find(made.dataset) is None
        stores.refs.head(made.dataset)

    def test_a_mirror_goes_with_its_dataset(self, stores: Stores) -> None:
        made = mirror(dataset(stores))
        stores.mirrors.put(made)
        stores.registry.forget(made.dataset)
        assert stores.mirrors.find(made.dataset) is None

    def test_there_is_no_mirror_without_a_dataset(self, stores: Stores) -> None:
        with pytest.raises(DatasetNotFound):
            stores.mirrors.put(mirror(some_id()))
