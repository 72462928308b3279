"""Reset moves the head back along its own history, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from chain_maker import entry, infos, linked, seed
from known import document
from refusals import refusing
from upkeep_parts import TOMORROW, dataset_of, grow, grown

from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.ports.errors import BlockNotFound, RefConflict
from odf_storage.stores.ports.values import DatasetEntry, ObjectKind

CASES = document("ingest/reset")["cases"]


def made_of(stores: Stores, given: dict[str, Any]) -> tuple[DatasetEntry, dict[str, HashedBlock]]:
    """The chain of a vector: stray blocks were head once, behind the first block."""
    made = entry()
    names = given["blocks"]
    blocks = [linked(None, seed(made.id))]
    strays = {name: linked(blocks[0], infos(name)[0]) for name in given.get("stray_blocks", ())}
    for name in names[1:]:
        blocks.append(linked(blocks[-1], infos(name)[0]))
    stores.create_dataset(made, blocks[:1])
    dataset = dataset_of(stores, made)
    for stray in strays.values():
        dataset.commit([stray], expected=blocks[0].hash)
    dataset.commit(blocks[1:], expected=dataset.head(), force=True)
    return made, {**dict(zip(names, blocks, strict=True)), **strays}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_head_is_reset_as_the_known_answers_say(stores: Stores, case: dict[str, Any]) -> None:
    given, expected = case["given"], case["expect"]
    made, blocks = made_of(stores, given)
    old = blocks[given["old_head"]].hash if given["old_head"] else None
    before = dataset_of(stores, made).head()
    if "error" in expected:
        with refusing(expected["error"]["kind"]):
            reset(stores, made, target=blocks[given["new_head"]].hash, old_head=old)
        assert dataset_of(stores, made).head() == before
        return
    receipt = reset(stores, made, target=blocks[given["new_head"]].hash, old_head=old)
    assert receipt.head == str(blocks[expected["head"]].hash)
    assert dataset_of(stores, made).head() == blocks[expected["head"]].hash
    assert stores.objects.read_ref(made.id, "head") == blocks[expected["head"]].hash


def test_without_a_target_everything_but_the_seed_goes(stores: Stores) -> None:
    made, blocks = grown(stores)
    receipt = reset(stores, made)
    assert (receipt.blocks_before, receipt.blocks_after) == (4, 1)
    assert (receipt.records_before, receipt.records_after) == (6, 0)
    assert dataset_of(stores, made).head() == blocks[0].hash
    assert dataset_of(stores, made).state().num_records == 0


def test_a_reset_to_the_head_changes_nothing_and_a_dry_run_neither(stores: Stores) -> None:
    made, blocks = grown(stores)
    assert reset(stores, made, target=blocks[-1].hash).outcome == "up-to-date"
    tried = reset(stores, made, dry_run=True)
    assert (tried.outcome, tried.head) == ("updated", str(blocks[0].hash))
    assert dataset_of(stores, made).head() == blocks[-1].hash


def test_a_block_that_is_not_here_is_not_found(stores: Stores) -> None:
    made, _ = grown(stores)
    with pytest.raises(BlockNotFound):
        reset(stores, made, target=Multihash.of(b"nobody"))


def test_a_reset_loses_against_whoever_moved_the_head_meanwhile(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, blocks = grown(stores)
    move = stores.refs.move

    def late(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(stores.refs, "move", move)
        grow(stores, made, blocks, 6)
        move(*args, **more)

    monkeypatch.setattr(stores.refs, "move", late)
    with pytest.raises(RefConflict):
        reset(stores, made, target=blocks[2].hash)
    assert dataset_of(stores, made).head() == blocks[-1].hash


def test_what_was_reset_stays_for_the_grace_time_and_goes_after_it(stores: Stores) -> None:
    made, blocks = grown(stores)
    reset(stores, made, target=blocks[2].hash)
    assert collect_garbage(stores).removed == {}
    assert reset(stores, made, target=blocks[2].hash).outcome == "up-to-date"
    assert dataset_of(stores, made).block(blocks[3].hash) == blocks[3]
    gone = collect_garbage(stores, clock=TOMORROW)
    assert set(gone.removed) == {"unreferenced block", "unreferenced data"}
    assert gone.blocks_forgotten == 1
    kinds = [info.key.kind for info in stores.objects.list(made.id)]
    assert kinds.count(ObjectKind.DATA) == 1
    assert check_stores(stores).ok
