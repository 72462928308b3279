"""Keeping metadata only: data goes; definitions stay, with their times and, if they can, hashes."""

from __future__ import annotations

import pytest
from chain_maker import infos, linked
from refusals import refusing
from upkeep_parts import begun, dataset_of, grow, grown

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import keep_metadata_only, plan_hard
from odf_storage.datasets.rewrite.compaction import SliceLimits
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import DatasetEntry


def test_blocks_before_the_first_data_keep_their_hashes(stores: Stores) -> None:
    made, blocks = grown(stores)
    receipt = keep_metadata_only(stores, made)
    assert (receipt.outcome, receipt.head) == ("updated", str(blocks[1].hash))
    assert (receipt.blocks_before, receipt.blocks_after) == (4, 2)
    assert dataset_of(stores, made).blocks() == blocks[:2]
    assert dataset_of(stores, made).state().num_records == 0


def test_blocks_behind_data_get_new_numbers_and_keep_their_times(stores: Stores) -> None:
    made, blocks = grown(stores)
    later = linked(blocks[-1], infos("late")[0], at=Instant.parse("2031-01-01T00:00:00Z"))
    dataset_of(stores, made).commit([later], expected=blocks[-1].hash)
    keep_metadata_only(stores, made)
    kept = dataset_of(stores, made).blocks()
    assert [block.sequence_number for block in kept] == [0, 1, 2]
    assert kept[2].event == later.event
    assert kept[2].block.system_time == later.block.system_time
    assert check_stores(stores).ok


def test_there_is_nothing_to_do_without_data_and_nothing_is_done_when_only_asked(
    stores: Stores,
) -> None:
    made, _ = begun(stores)
    assert keep_metadata_only(stores, made).outcome == "nothing-to-do"
    full, blocks = grown(stores, "kamu/bar")
    tried = keep_metadata_only(stores, full, dry_run=True)
    assert (tried.outcome, tried.head, tried.blocks_after) == ("updated", None, 2)
    assert dataset_of(stores, full).head() == blocks[-1].hash


def test_data_that_came_meanwhile_goes_too(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    made, blocks = grown(stores)
    move = stores.refs.move

    def late(*args: object, **more: object) -> None:
        monkeypatch.setattr(stores.refs, "move", move)
        grow(stores, made, blocks, 6)
        raise RefConflict(blocks[-2].hash, blocks[-1].hash)

    monkeypatch.setattr(stores.refs, "move", late)
    assert keep_metadata_only(stores, made).records_before == 9
    assert dataset_of(stores, made).blocks() == blocks[:2]


def test_only_roots_are_compacted_hard(stores: Stores) -> None:
    made, _ = begun(stores)
    other = DatasetEntry(
        made.id, made.alias, DatasetKind.Derivative, made.visibility, made.created_at
    )
    with refusing("InvalidDatasetKind"):
        plan_hard(type(dataset_of(stores, made))(other, stores), SliceLimits())
